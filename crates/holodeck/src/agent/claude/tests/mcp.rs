//! External MCP servers of the YAML.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, DecidedBy,
    Outcome, Ruling, TurnRequest,
};
use holodeck_backend_claude::{ClaudeBackend, Limits, Reuse};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

use super::{
    http::Http,
    setup::{agent_at, ask, limits},
};

/// The server with one tool of each kind, as `cargo xtask smoke` installs it.
fn everything() -> String {
    let place = ".smoke/mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(place);
    assert!(
        script.exists(),
        "the MCP server is not installed; `cargo xtask smoke` installs it"
    );
    format!(
        "tools:\n- type: mcp\n  name: everything\n  description: One of each.\n  command: node\n  \
         args: ['{}']\n  env: {{OWN: given}}\n  config: {{allowed_tools: [echo, get-env]}}\n",
        script.display()
    )
}

#[tokio::test]
async fn a_server_is_called_and_sees_no_credentials() {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__everything__echo", &json!({"message": "gingerbread"}))
            .and_tool_use("mcp__everything__get-env", &json!({}))
            .and_tool_use("mcp__everything__get-sum", &json!({"a": 1, "b": 2})),
        AnthropicReply::text("done"),
    ]);
    let options = agent_at(&server.url(), folder.path(), &everything())
        .options()
        .unwrap();
    let turn = ask(options, "go").await;
    assert_eq!(turn.result().outcome, Outcome::Completed);
    let requests = server.finish();
    assert!(requests[0].tool_names().contains(&"mcp__everything__echo"));
    let results = requests[1].last_results();
    assert_eq!(results[0], ("Echo: gingerbread".to_owned(), false));
    let env = &results[1].0;
    assert!(env.contains(r#""OWN": "given""#), "{env}");
    assert!(env.contains(r#""ANTHROPIC_API_KEY": """#), "{env}");
    assert!(!env.contains("sk-ant"), "{env}");
    assert!(!requests[0].tool_names().contains(&"mcp__everything__get-sum"));
    assert!(
        results[2].0.contains("No such tool available") && results[2].1,
        "{:?}",
        results[2]
    );
}

#[tokio::test]
async fn a_server_that_does_not_start_is_named_before_the_model_is_asked() {
    let folder = tempdir().unwrap();
    for command in ["no-such-program", "'false'", "sleep, args: ['60']"] {
        let server = AnthropicServer::replies([]);
        let rest = format!("tools: [{{type: mcp, name: orders, description: d, command: {command}}}]\n");
        let options = agent_at(&server.url(), folder.path(), &rest).options().unwrap();
        let options = options.limits(Limits {
            mcp_start: Duration::from_millis(500),
            ..limits()
        });
        let error = ask(options, "go").await.end.unwrap_err();
        assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
        let text = error.explanation().text();
        assert!(text.starts_with("MCP server `orders` did not start: "), "{text}");
        assert!(text.contains("required: false"), "{text}");
        assert_eq!(server.finish().len(), 0);
    }
}

#[tokio::test]
async fn a_missing_optional_server_does_not_stop_the_turn() {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([AnthropicReply::text("without")]);
    let rest = "tools: [{type: mcp, name: orders, description: d, command: 'false', required: false}]\n";
    let options = agent_at(&server.url(), folder.path(), rest).options().unwrap();
    let turn = ask(options, "go").await;
    assert_eq!(turn.result().response, "without");
    let [notice] = &turn.notices[..] else {
        panic!("{:?}", turn.notices);
    };
    assert!(
        notice.starts_with("MCP server `orders` did not start: "),
        "{notice}"
    );
    server.finish();
}

/// The answers of a server with one tool.
fn answer_to(message: &Value) -> Value {
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "remote", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "a.look", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "seen from afar"}]}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn a_server_may_be_remote() {
    let folder = tempdir().unwrap();
    let remote = Http::start(|request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match &message["id"] {
            _ if !request.line.starts_with("POST ") => ("405 Method Not Allowed", String::new()),
            Value::Null => ("202 Accepted", String::new()),
            id => {
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": answer_to(&message)});
                ("200 OK", reply.to_string())
            }
        }
    })
    .await;
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__my_remote__a_look", &json!({})),
        AnthropicReply::text("done"),
    ]);
    let rest = format!(
        "tools:\n- type: mcp\n  name: my_remote\n  description: d\n  transport: http\n  url: {}/mcp\n  headers: \
         {{X-Key: remote-key}}\n  config: {{allowed_tools: [a.look]}}\n",
        remote.url
    );
    let options = agent_at(&server.url(), folder.path(), &rest).options().unwrap();
    ask(options, "go").await.result();
    assert_eq!(
        server.finish()[1].last_results(),
        [("seen from afar".to_owned(), false)]
    );
    let requests = remote.requests();
    assert!(requests.len() >= 3);
    for request in requests {
        assert!(request.line.contains(" /mcp "), "{}", request.line);
        assert!(
            request.headers.contains("x-key: remote-key"),
            "{}",
            request.headers
        );
        assert!(!request.headers.contains("sk-ant"), "{}", request.headers);
    }
}

/// Allows every call, and answers what servers ask.
struct Person {
    is_present: bool,
    asked: Mutex<Vec<ApprovalAsk>>,
}

#[async_trait]
impl Approver for Person {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        Some(Ruling::new(ApprovalDecision::approve(), DecidedBy::Rule))
    }

    fn has_person(&self) -> bool {
        self.is_present
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        self.asked.lock().unwrap().push(ask.clone());
        ApprovalDecision::Approve {
            arguments: Some(json!({"name": "Ada", "check": null})),
        }
    }
}

#[tokio::test]
async fn a_question_of_a_server_reaches_the_person_of_the_turn() {
    let tool = "mcp__everything__trigger-elicitation-request";
    for (is_present, expected) in [(true, "Name: Ada"), (false, "declined")] {
        let folder = tempdir().unwrap();
        let server = AnthropicServer::replies([
            AnthropicReply::tool_use(tool, &json!({})),
            AnthropicReply::text("done"),
        ]);
        let servers = everything().replace("echo, get-env", "trigger-elicitation-request");
        let options = agent_at(&server.url(), folder.path(), &servers)
            .options()
            .unwrap();
        let backend = ClaudeBackend::new(options.reuse(Reuse::Never)).unwrap();
        let person = Arc::new(Person {
            is_present,
            asked: Mutex::default(),
        });
        let mut request = TurnRequest::new("go");
        request.approver = Some(Arc::clone(&person) as Arc<dyn Approver>);
        let events: Vec<_> = backend.start(request).collect().await;
        let requests = server.finish();
        let result = &requests[1].last_results()[0];
        assert!(result.0.contains(expected), "{result:?}");
        let asked = person.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), usize::from(is_present));
        let questions = events.iter().filter_map(|event| match event {
            Ok(BackendEvent::ApprovalAsked(ask)) => Some(ask.as_ref()),
            _ => None,
        });
        assert!(questions.eq(asked.iter()));
        if let [ask] = asked.as_slice() {
            assert_eq!(ask.tool_name, "everything:elicitation");
            let call = events.iter().find_map(|event| match event {
                Ok(BackendEvent::ToolCall(call)) => Some(&call.call_id),
                _ => None,
            });
            assert_eq!(Some(&ask.call_id), call);
            assert!(ask.answer_schema.is_some());
        }
        backend.teardown().await.unwrap();
    }
}
