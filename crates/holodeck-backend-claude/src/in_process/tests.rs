//! Tests of the MCP server inside the host, with the messages of the real CLI.

use std::time::Duration;

use async_trait::async_trait;
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use super::*;

/// Tools whose names select their behaviour.
struct Host(Vec<ToolSpec>);

fn spec(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("It does {name}"),
        parameters,
        side_effects: SideEffects::Possible,
    }
}

#[async_trait]
impl ToolHost for Host {
    fn specs(&self) -> &[ToolSpec] {
        &self.0
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let name = call.name.clone();
        match name.as_str() {
            "panic" => panic!("at the disco"),
            "gone" => Err(ToolError::Unavailable {
                name,
                reason: "no such file".to_owned(),
            }),
            "slow" => Err(ToolError::TimedOut {
                name,
                after: Duration::from_secs(3),
            }),
            "wait" => {
                cx.cancel.cancelled().await;
                Err(ToolError::Cancelled)
            }
            "fail" => Ok(ToolOutput::error("tool exploded")),
            _ => Ok(ToolOutput::ok(format!("{} {}", call.call_id, call.arguments))),
        }
    }
}

fn server() -> InProcessServer {
    let query = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]});
    let mut search = spec("search", query);
    search.side_effects = SideEffects::None;
    let host = Host(vec![
        search,
        spec("fail", json!({"properties": {}})),
        spec("any", Value::Null),
    ]);
    InProcessServer::new("holodeck", Arc::new(host)).unwrap()
}

async fn ask(message: Value) -> Reply {
    server().handle(&message, CancellationToken::new()).await
}

fn call(name: &str, arguments: &Value) -> Value {
    let meta = json!({"claudecode/toolUseId": "toolu_1", "progressToken": 2});
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    json!({"method": "tools/call", "params": params, "jsonrpc": "2.0", "id": 2})
}

/// The messages are those of the real CLI, 2.1.330.
#[tokio::test]
async fn the_handshake_of_the_real_cli_is_answered() {
    let initialize = json!({"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "claude-code", "title": "Claude Code", "version": "2.1.330"}}, "jsonrpc": "2.0", "id": 0});
    let list = json!({"method": "tools/list", "jsonrpc": "2.0", "id": 1});
    let version = env!("CARGO_PKG_VERSION");
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "holodeck", "version": version}});
    let tools = json!({"tools": [
        {"name": "search", "description": "It does search",
         "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
         "annotations": {"readOnlyHint": true}},
        {"name": "fail", "description": "It does fail", "inputSchema": {"type": "object", "properties": {}}},
        {"name": "any", "description": "It does any", "inputSchema": {"type": "object"}},
    ]});
    // Older CLIs repeat the handshake.
    for _ in 0..2 {
        assert_eq!(
            ask(initialize.clone()).await.message,
            json!({"jsonrpc": "2.0", "id": 0, "result": greeting})
        );
        assert_eq!(
            ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
                .await
                .message,
            json!({"jsonrpc": "2.0", "result": {}})
        );
        assert_eq!(
            ask(list.clone()).await.message,
            json!({"jsonrpc": "2.0", "id": 1, "result": tools})
        );
    }
    assert_eq!(
        server().manifest(),
        json!({"initializeResult": greeting, "toolsListResult": tools})
    );
}

#[tokio::test]
async fn the_protocol_version_is_echoed() {
    let request = json!({"method": "initialize", "params": {"protocolVersion": "2031-01-01"}, "id": "a"});
    let reply = ask(request).await.message;
    assert_eq!(reply["result"]["protocolVersion"], "2031-01-01");
    assert_eq!(reply["id"], "a");
    let reply = ask(json!({"method": "initialize", "id": 1})).await.message;
    assert_eq!(reply["result"]["protocolVersion"], PROTOCOL);
}

#[tokio::test]
async fn calls_reach_the_host_with_the_models_id() {
    let reply = ask(call("search", &json!({"query": "rust"}))).await;
    assert_eq!(
        reply.message,
        json!({"jsonrpc": "2.0", "id": 2, "result":
            {"content": [{"type": "text", "text": r#"toolu_1 {"query":"rust"}"#}]}})
    );
    assert_eq!(
        reply.details,
        Some(("toolu_1".to_owned(), CallDetails::default()))
    );
    assert_eq!(reply.failed, None);
    let bare = json!({"method": "tools/call", "params": {"name": "any"}, "id": 7});
    assert_eq!(ask(bare).await.message["result"]["content"][0]["text"], "7 {}");
}

#[tokio::test]
async fn a_tool_that_reports_an_error_ran() {
    let reply = ask(call("fail", &json!({}))).await;
    assert_eq!(
        reply.message,
        json!({"jsonrpc": "2.0", "id": 2, "result":
            {"content": [{"type": "text", "text": "tool exploded"}], "isError": true}})
    );
    assert_eq!(reply.failed, None);
}

#[tokio::test]
async fn a_tool_that_could_not_be_run_is_reported_to_the_model_and_the_turn() {
    for (name, reason) in [("gone", "no such file"), ("panic", "it panicked")] {
        let reply = ask(call(name, &json!({}))).await;
        assert_eq!(
            reply.failed,
            Some(FailedCall {
                name: name.to_owned(),
                call_id: "toolu_1".to_owned(),
                reason: reason.to_owned(),
            })
        );
        assert_eq!(reply.message["result"]["isError"], true);
        let text = reply.message["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(name) && text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn a_tool_that_timed_out_is_reported_only_to_the_model() {
    let reply = ask(call("slow", &json!({}))).await;
    assert_eq!(reply.failed, None);
    assert_eq!(reply.message["result"]["isError"], true);
    let text = reply.message["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "tool `slow` did not answer within 3 s");
}

#[tokio::test]
async fn a_cancelled_call_is_not_a_failure_of_the_tool() {
    let cancel = CancellationToken::new();
    let server = server();
    let message = call("wait", &json!({}));
    let (reply, ()) = tokio::join!(server.handle(&message, cancel.clone()), async { cancel.cancel() });
    assert_eq!(reply.failed, None);
    assert_eq!(reply.message["result"]["isError"], true);
}

#[tokio::test]
async fn bad_messages_get_the_codes_of_json_rpc() {
    for (message, code) in [
        (json!({"method": "resources/list", "id": 1}), -32_601),
        (json!({"method": "tools/call", "id": 1}), -32_602),
        (
            json!({"method": "tools/call", "id": 1, "params": {"name": 3}}),
            -32_602,
        ),
        (
            json!({"method": "tools/call", "id": 1, "params": {"name": "any", "arguments": [1]}}),
            -32_602,
        ),
        (json!({"id": 1}), -32_600),
        (json!("hello"), -32_600),
        (json!([{"method": "ping", "id": 1}]), -32_600),
    ] {
        let reply = ask(message.clone()).await;
        assert_eq!(reply.message["error"]["code"], code, "{message}");
        assert_eq!(reply.failed, None);
    }
    assert_eq!(
        ask(json!({"method": "ping", "id": 1})).await.message,
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
}

#[test]
fn tools_that_a_model_cannot_call_are_refused() {
    let refuse = |specs| {
        InProcessServer::new("s", Arc::new(Host(specs)))
            .unwrap_err()
            .to_string()
    };
    for schema in [
        json!({"type": "string"}),
        json!({"type": ["object", "null"]}),
        json!(false),
        json!([]),
    ] {
        assert_eq!(
            refuse(vec![spec("t", schema)]),
            "tool `t`: the schema of its parameters must have the type `object`"
        );
    }
    assert_eq!(
        refuse(vec![spec("a.b", json!({})), spec("a_b", json!({}))]),
        "tools `a.b` and `a_b` have the same name for the model, `mcp__s__a_b`"
    );
}

#[test]
fn the_model_sees_plain_names() {
    let server = InProcessServer::new("s", Arc::new(Host(vec![spec("a.b", json!({}))]))).unwrap();
    assert_eq!(server.model_name("a.b"), "mcp__s__a_b");
}
