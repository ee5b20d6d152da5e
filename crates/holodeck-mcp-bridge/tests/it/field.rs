//! Servers as people have them: old SDKs, gateways, hand-written ones. Each has one habit (`fixtures/mcp`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use holodeck_mcp_bridge::{McpOptions, McpServer};
use holodeck_model::McpTool;
use holodeck_process::{ChildEnv, ChildProcess, ProcessSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::setup::{call, connect, env, names, options, text, tool, workspace};

/// A server that follows a script.
pub(crate) struct Scripted {
    folder: TempDir,
    _child: Option<ChildProcess>,
    tool: McpTool,
}

impl Scripted {
    /// The server of a script in `fixtures/mcp`.
    async fn of(name: &str) -> Self {
        let path = workspace().join("fixtures/mcp").join(name);
        let script = std::fs::read_to_string(path).unwrap();
        Self::with(serde_json::from_str(&script).unwrap(), "").await
    }

    pub(crate) async fn with(script: Value, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.json");
        std::fs::write(&path, script.to_string()).unwrap();
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/field.py");
        let arguments: Vec<PathBuf> = vec![
            program,
            path,
            workspace().join("fixtures/mcp/default.json"),
            folder.path().join("methods"),
        ];
        let arguments: Vec<String> = arguments.iter().map(|path| path.display().to_string()).collect();
        if script["transport"] == "stdio" {
            let tool = tool(&format!("name: s\ncommand: python3\nargs: {arguments:?}\n{more}"));
            return Self {
                folder,
                _child: None,
                tool,
            };
        }
        let path: ChildEnv = [("PATH".into(), env().get("PATH").unwrap().into())]
            .into_iter()
            .collect();
        let mut child = ChildProcess::spawn(&ProcessSpec::new("python3", path).args(arguments)).unwrap();
        let mut port = String::new();
        let mut stdout = BufReader::new(child.take_stdout().unwrap());
        stdout.read_line(&mut port).await.unwrap();
        let transport = script["transport"].as_str().unwrap();
        let scheme = if transport == "websocket" { "ws" } else { "http" };
        let tool = tool(&format!(
            "name: s\ntransport: {transport}\nurl: '{scheme}://127.0.0.1:{}/mcp'\n{more}",
            port.trim()
        ));
        Self {
            folder,
            _child: Some(child),
            tool,
        }
    }

    fn options(&self) -> McpOptions {
        options(self.folder.path())
    }

    pub(crate) async fn connect(&self) -> McpServer {
        connect(&self.tool, &self.options()).await
    }

    /// The methods that it was asked for, in order.
    fn methods(&self) -> Vec<String> {
        let methods = std::fs::read_to_string(self.folder.path().join("methods")).unwrap();
        methods.lines().map(str::to_owned).collect()
    }
}

pub(crate) fn rules(transport: &str, rules: impl Into<Value>) -> Value {
    let rules: Value = rules.into();
    json!({ "transport": transport, "rules": rules })
}

#[tokio::test]
async fn a_server_that_does_not_know_the_first_request_gets_the_handshake() {
    let refuse = |answer: Value| {
        let mut rule = json!({ "method": "*", "before": "initialize" });
        rule.as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        json!([rule])
    };
    let mut scripts = Vec::new();
    for answer in [
        json!({ "answer": "never" }),
        json!({ "exit": 1 }),
        json!({ "error": { "code": -32602, "message": "Invalid request parameters", "data": "" } }),
        json!({ "error": { "code": 0, "message": "" } }),
        json!({ "error": "no" }),
        json!({ "result": null }),
        json!({ "result": {} }),
        json!({ "result": [] }),
        json!({ "raw": "{\"jsonrpc\": \"2.0\", \"id\": @ID@}" }),
    ] {
        scripts.push(rules("stdio", refuse(answer)));
    }
    let never = refuse(json!({ "answer": "never" }));
    scripts.push(rules("http", never));
    for status in [400, 401, 403, 404, 405, 406, 415, 422, 500, 501, 502, 503] {
        for body in [
            "no",
            "",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}",
        ] {
            let http = json!({ "status": status, "headers": { "content-type": "text/plain" }, "body": body });
            scripts.push(rules("http", refuse(json!({ "http": http }))));
        }
    }
    for script in scripts {
        let scripted = Scripted::with(script.clone(), "").await;
        let server = scripted.connect().await;
        assert_eq!(
            text(&server, "mcp__s__look", json!({})).await,
            "sunny",
            "{script}"
        );
        assert!(scripted.methods().contains(&"initialize".to_owned()), "{script}");
        server.close().await;
    }
}

#[tokio::test]
async fn a_silent_first_request_takes_a_third_of_the_time_limit_at_most() {
    let never = json!([{ "method": "*", "before": "initialize", "answer": "never" }]);
    for limit in ["request_timeout: 3", "request_timeout: 1"] {
        let scripted = Scripted::with(rules("stdio", never.clone()), limit).await;
        let mut options = scripted.options();
        options.startup = Duration::from_secs(50);
        let server = connect(&scripted.tool, &options).await;
        assert_eq!(names(&server), ["mcp__s__look"]);
        server.close().await;
    }
}

#[tokio::test]
async fn the_refusal_of_the_handshake_itself_is_the_error() {
    for status in [401, 403] {
        let http = json!({ "status": status, "headers": {}, "body": "who are you" });
        let script = rules(
            "http",
            json!([
                { "method": "*", "before": "initialize", "http": http },
                { "method": "initialize", "http": http },
            ]),
        );
        let scripted = Scripted::with(script, "").await;
        let connected = crate::setup::try_connect(&scripted.tool, &scripted.options()).await;
        let reason = &connected.failed[0].reason;
        assert!(
            reason.contains(&status.to_string()) && reason.contains("who are you"),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_refused_call_ends_at_once_whatever_id_the_refusal_has() {
    for id in ["null", "\"server-error\"", "99", "@ID@"] {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32602,\"message\":\"bad params\"}}}}"
        );
        let http = json!({ "status": 400, "headers": { "content-type": "application/json" }, "body": body });
        let script = rules(
            "http",
            json!([{ "method": "tools/call", "times": 1, "http": http }]),
        );
        let scripted = Scripted::with(script, "").await;
        let server = scripted.connect().await;
        let refused = call(&server, "mcp__s__look", json!({})).await.unwrap();
        assert!(refused.text.contains("bad params"), "{id}: {}", refused.text);
        assert_eq!(text(&server, "mcp__s__look", json!({})).await, "sunny", "{id}");
        server.close().await;
    }
}

#[tokio::test]
async fn a_session_that_a_server_forgot_is_renewed_once_and_the_call_repeated() {
    for name in ["lost-session-400-id-null.json", "lost-session-400-text.json"] {
        let scripted = Scripted::of(name).await;
        let server = scripted.connect().await;
        assert_eq!(text(&server, "mcp__s__look", json!({})).await, "sunny", "{name}");
        let initialized = scripted
            .methods()
            .iter()
            .filter(|method| *method == "initialize")
            .count();
        assert_eq!(initialized, 2, "{name}");
        server.close().await;
    }
    let scripted = Scripted::of("lost-session-400-always.json").await;
    let server = scripted.connect().await;
    let refused = call(&server, "mcp__s__look", json!({})).await;
    assert!(refused.map_or(true, |output| output.is_error));
    let calls = scripted
        .methods()
        .iter()
        .filter(|method| *method == "tools/call")
        .count();
    assert_eq!(calls, 2);
    server.close().await;
}

#[tokio::test]
async fn a_bad_entry_of_a_list_costs_itself_only() {
    for name in [
        "list-null-input-schema.json",
        "list-tool-without-name.json",
        "list-without-input-schema.json",
        "server-info-without-version.json",
    ] {
        let scripted = Scripted::of(name).await;
        let server = scripted.connect().await;
        let offered = names(&server);
        assert!(!offered.is_empty(), "{name}");
        for tool in offered {
            assert_eq!(text(&server, &tool, json!({})).await, "sunny", "{name}: {tool}");
        }
        server.close().await;
    }
}

#[tokio::test]
async fn the_parts_of_a_result_that_can_be_read_reach_the_model_over_both_transports() {
    let results = std::fs::read_to_string(workspace().join("fixtures/mcp/results.jsonl")).unwrap();
    for line in results.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        for transport in ["stdio", "http"] {
            let rule = json!([{ "method": "tools/call", "result": case["result"] }]);
            let scripted = Scripted::with(rules(transport, rule), "").await;
            let server = scripted.connect().await;
            let text = text(&server, "mcp__s__look", json!({})).await;
            assert!(text.contains("sunny"), "{transport}, {}: {text}", case["name"]);
            server.close().await;
        }
    }
}

#[tokio::test]
async fn every_tool_has_a_name_of_its_own_whatever_the_order_of_the_list() {
    for file in ["dots-and-slashes.json", "chinese.json", "case-and-blanks.json"] {
        let text = std::fs::read_to_string(workspace().join("fixtures/mcp").join(file)).unwrap();
        let mut script: Value = serde_json::from_str(&text).unwrap();
        let count = script["rules"][0]["result"]["tools"].as_array().unwrap().len();
        let mut offered = Vec::new();
        for turn in 0..count {
            if turn > 0 {
                script["rules"][0]["result"]["tools"]
                    .as_array_mut()
                    .unwrap()
                    .rotate_left(1);
            }
            let scripted = Scripted::with(script.clone(), "").await;
            let server = scripted.connect().await;
            let mut names = names(&server);
            for name in &names {
                assert_eq!(
                    crate::setup::text(&server, name, json!({})).await,
                    "sunny",
                    "{name}"
                );
            }
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{file}: {names:?}");
            offered.push(names);
            server.close().await;
        }
        offered.dedup();
        assert_eq!(offered.len(), 1, "{file}: {offered:?}");
    }
}

#[tokio::test]
async fn tools_are_listed_though_the_handshake_does_not_announce_them() {
    let scripted = Scripted::of("capabilities-empty.json").await;
    let server = scripted.connect().await;
    assert_eq!(names(&server), ["mcp__s__look"]);
    server.close().await;
    let silent = json!([
        { "method": "initialize", "result": { "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {} } },
        { "method": "tools/list", "error": { "code": -32601, "message": "Method not found" } },
    ]);
    let scripted = Scripted::with(rules("stdio", silent), "").await;
    let server = scripted.connect().await;
    assert_eq!(names(&server), Vec::<String>::new());
    server.close().await;
}

#[tokio::test]
async fn a_list_ends_where_a_cursor_comes_again() {
    for (file, expected) in [
        ("empty-cursor-for-ever.json", 1),
        ("same-cursor-for-ever.json", 1),
        ("two-cursors-in-a-circle.json", 2),
        ("empty-cursor-is-a-page.json", 2),
    ] {
        let scripted = Scripted::of(file).await;
        let server = scripted.connect().await;
        assert_eq!(names(&server).len(), expected, "{file}: {:?}", names(&server));
        server.close().await;
    }
}

#[tokio::test]
async fn null_is_absent_over_both_transports() {
    for file in [
        "error-null-beside-result-http.json",
        "error-null-beside-result.json",
        "structured-content-null.json",
    ] {
        let scripted = Scripted::of(file).await;
        let server = scripted.connect().await;
        assert_eq!(text(&server, "mcp__s__look", json!({})).await, "sunny", "{file}");
        server.close().await;
    }
}

#[tokio::test]
async fn a_redirect_on_the_same_server_is_followed_and_another_host_is_named() {
    let scripted = Scripted::of("redirect-to-slash.json").await;
    let server = scripted.connect().await;
    assert_eq!(text(&server, "mcp__s__look", json!({})).await, "sunny");
    server.close().await;
    let elsewhere = json!([{ "method": "*", "http": { "status": 308, "headers": { "location": "http://other.invalid/mcp" },
        "body": "" } }, { "method": "initialize", "http": { "status": 308,
        "headers": { "location": "http://other.invalid/mcp" }, "body": "" } }]);
    let scripted = Scripted::with(rules("http", elsewhere), "headers: {X-Key: sesame}").await;
    let connected = crate::setup::try_connect(&scripted.tool, &scripted.options()).await;
    let reason = &connected.failed[0].reason;
    assert!(reason.contains("http://other.invalid/mcp"), "{reason}");
}
