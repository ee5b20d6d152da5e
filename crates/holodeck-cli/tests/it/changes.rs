//! MCP servers whose tools change during a conversation.

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::project::Project;

/// A server with one tool, which is replaced by another after its first call.
pub(crate) const GARDEN: &str = r#"
import json, sys

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

tools = [{"name": "plant", "description": "Plants.", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {"listChanged": True}},
                                   "serverInfo": {"name": "garden", "version": "4.5"}}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": tools}})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "plant":
            tools = [{"name": "pick", "description": "Picks.", "inputSchema": {
                "type": "object", "properties": {"fruit": {"type": "string"}}}}]
            send({"method": "notifications/tools/list_changed"})
        text = "planted" if name == "plant" else "a ripe " + message["params"]["arguments"]["fruit"]
        send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no such method"}})
"#;

fn offered(request: &ReceivedRequest) -> Vec<String> {
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// A model that calls the first offered tool until it gets its fruit.
fn gardener() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        match last["content"].as_str() {
            Some(text) if text.starts_with("a ripe") => Reply::text(text),
            _ => {
                let tool = offered(request).remove(0);
                Reply::tool_call(&format!("c{}", messages.len()), &tool, &json!({"fruit": "pear"}))
            }
        }
    })
}

fn project(server: &ModelServer, more: &str) -> Project {
    let project = Project::with(&format!(
        "name: gardener\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Garden.}}\n\
         tools:\n  - {{type: mcp, name: garden, description: Grows., command: python3, args: [./garden.py]}}\n{more}\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n\
         \x20 - name: talk\n    turns:\n\
         \x20     - {{input: A pear!, ground_truth: a ripe pear, expected_tools: [plant, pick]}}\n\
         \x20     - {{input: Another one!, ground_truth: a ripe pear, expected_tools: [pick]}}\n",
        server.url()
    ));
    project.write("garden.py", GARDEN);
    project
}

#[test]
fn the_next_message_offers_the_changed_tools_of_a_server() {
    let server = gardener();
    let project = project(&server, "");
    project
        .run(&["test", "--record", "tape.jsonl"])
        .exits(0)
        .says("1 passed");
    let shown: Vec<_> = server.finish().iter().map(offered).collect();
    let (plant, pick) = (["mcp__garden__plant"], ["mcp__garden__pick"]);
    assert_eq!(shown, [plant, pick, pick, pick, pick]);
    let run = project.run_file();
    assert_eq!(
        run["metadata"]["mcp_servers"],
        json!([{"tool": "garden", "name": "garden", "version": "4.5", "protocol": "2025-03-26"}])
    );

    // Without the server, the same tools are offered.
    let replay = project
        .command(&["test", "--replay", "tape.jsonl"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(replay.status.code(), Some(0), "{replay:?}");
    assert!(project.run_file()["metadata"].get("mcp_servers").is_none());
}

#[test]
fn a_tool_added_later_is_offered_regardless_of_filtering() {
    let server = gardener();
    let filtering = "tool_filtering: {enabled: true, search_method: bm25, always_include: [garden]}\n";
    project(&server, filtering).run(&["test"]).exits(0);
    let shown: Vec<_> = server.finish().iter().map(offered).collect();
    assert_eq!(shown[1], ["mcp__garden__pick"]);
}
