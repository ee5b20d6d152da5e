//! Agents with MCP servers, on an OpenAI-compatible endpoint.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use holodeck_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::project::{Project, agent};

/// The everything server of the pinned npm packages, as a tool.
pub(crate) fn everything(more: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let server = ".smoke/mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let server = root.join(server);
    assert!(
        server.is_file(),
        "{} is missing; `cargo xtask smoke` installs it",
        server.display()
    );
    format!(
        "tools:\n  - type: mcp\n    name: everything\n    description: One of each.\n    command: node\n    \
         args: ['{}']\n{more}",
        server.display()
    )
}

const CASE: &str = "  - name: echo\n    input: Say gingerbread.\n    ground_truth: gingerbread\n    \
                    expected_tools: [echo]\n";

/// A model that calls the tool and repeats its result.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        if last["role"] == "tool" {
            Reply::text(last["content"].as_str().unwrap())
        } else {
            Reply::tool_call(
                "call-1",
                "mcp__everything__echo",
                &json!({ "message": "gingerbread" }),
            )
        }
    })
}

#[test]
fn a_server_that_keeps_a_run_waiting_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = |path: &str| root.join(path).display().to_string();
    // It leaves the first request without an answer for longer than a person waits without a word.
    let tool = format!(
        "tools:\n  - type: mcp\n    name: sleeper\n    description: The weather.\n    command: python3\n    \
         args: ['{}', '{}', '{}', methods]\n",
        place("crates/holodeck-mcp-bridge/tests/it/field.py"),
        place("fixtures/mcp/silent-before-initialize.json"),
        place("fixtures/mcp/default.json"),
    );
    let server = ModelServer::canned(&Reply::text("Good day"));
    let case = "  - {name: hello, input: Hi., ground_truth: Good day}\n";
    let project = Project::with(&format!("{}{tool}", agent(&server.url(), case)));
    let ran = project.run(&["test"]).exits(0);
    let waiting: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("waiting for an MCP server"))
        .collect();
    assert_eq!(waiting.len(), 1, "{}", ran.stderr);
    assert!(waiting[0].contains("sleeper"), "{waiting:?}");
}

#[test]
fn the_tools_of_a_real_server_answer_and_a_replay_needs_none() {
    let server = model();
    let only = "    config: {allowed_tools: [echo, get-sum]}\n";
    let project = Project::with(&format!("{}{}", agent(&server.url(), CASE), everything(only)));
    project
        .run(&["test", "--record", "calls.jsonl"])
        .exits(0)
        .says("1 passed");
    let requests = server.finish();
    let tools = requests[0].body["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mcp__everything__echo", "mcp__everything__get-sum"]);
    // A replay starts no server: there is no node.
    let replay = project
        .command(&["test", "--replay", "calls.jsonl"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(replay.status.code(), Some(0), "{replay:?}");
}

#[test]
fn pictures_and_resources_of_a_server_reach_the_model_also_in_a_replay() {
    let server = ModelServer::answering(|request| {
        if request.texts("tool").is_empty() {
            let resource = json!({"resourceType": "Text", "resourceId": 1});
            return Reply::tool_call("c1", "mcp__everything__get-tiny-image", &json!({})).and_tool_call(
                "c2",
                "mcp__everything__get-resource-reference",
                &resource.to_string(),
            );
        }
        Reply::text("gingerbread")
    });
    let case = "  - {name: look, input: Look!, ground_truth: gingerbread}\n";
    let only = "    config: {allowed_tools: [get-tiny-image, get-resource-reference]}\n";
    let project = Project::with(&format!("{}{}", agent(&server.url(), case), everything(only)));
    project.run(&["test", "--record", "calls.jsonl"]).exits(0);
    let requests = server.finish();
    let messages = requests[1].messages();
    let (picture, resource, shown) = (
        &messages[messages.len() - 3],
        &messages[messages.len() - 2],
        &messages[messages.len() - 1],
    );
    assert_eq!(
        (&picture["role"], &resource["role"]),
        (&json!("tool"), &json!("tool"))
    );
    let text = resource["content"].as_str().unwrap();
    assert!(text.contains("[resource demo://"), "{text}");
    // After all results, as an endpoint refuses another message between them.
    assert_eq!(shown["role"], "user");
    let url = shown["content"][1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,"), "{url}");
    project.run(&["test", "--replay", "calls.jsonl"]).exits(0);
}

#[test]
fn a_server_that_does_not_start_ends_the_run_unless_it_is_not_required() {
    let server = ModelServer::answering(|_| Reply::text("gingerbread"));
    let case = "  - name: a\n    input: Hi\n    ground_truth: gingerbread\n";
    let broken = |more: &str| {
        format!(
            "{}tools:\n  - type: mcp\n    name: broken\n    description: D.\n    command: /bin/sh\n    \
             args: [-c, \"echo the database is gone >&2; exit 3\"]\n{more}",
            agent(&server.url(), case)
        )
    };
    let project = Project::with(&broken(""));
    let ran = project.run(&["test"]).exits(3);
    assert!(
        ran.stderr.contains(
            "agent.yaml:21:5: MCP server `broken` can't be used: it ended (exit code 3)\nstderr: the database is gone"
        ),
        "{}",
        ran.stderr
    );
    // A dry run starts no server.
    project.run(&["test", "--dry-run"]).exits(0);
    project.write("agent.yaml", broken("    required: false\n"));
    project
        .run(&["test"])
        .exits(0)
        .says("MCP server `broken` is left out");
    server.finish();
}

#[test]
fn nothing_is_left_of_a_server_when_holodeck_is_killed() {
    let server = ModelServer::answering(|_| Reply::hang());
    // Does not read stdin, so it does not notice that its client has ended.
    let deaf = "import os, sys, json, time\nopen('pid', 'w').write(str(os.getpid()))\nfor line in sys.stdin:\n    \
                m = json.loads(line)\n    if 'id' not in m: continue\n    \
                r = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'd', 'version': '1'}} \
                if m['method'] == 'initialize' else {'tools': [{'name': 'x', 'inputSchema': {'type': 'object'}}]}\n    \
                e = {'error': {'code': -32601, 'message': 'no'}} if m['method'] == 'server/discover' else {'result': r}\n    \
                print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **e}), flush=True)\n    \
                if m['method'] == 'tools/list': time.sleep(600)\n";
    let project = Project::with(&format!(
        "{}tools:\n  - {{type: mcp, name: deaf, description: D., command: python3, args: [./deaf.py]}}\n",
        agent(&server.url(), CASE)
    ));
    project.write("deaf.py", deaf);
    let mut command = project.command(&["test"]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let wait_for = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(started.elapsed() < Duration::from_mins(1), "timed out");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for(&|| server.open() > 0);
    let process = project.read("pid");
    let stat = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    assert!(!stat().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(&|| stat().is_empty() || stat().contains(") Z "));
    server.finish_unchecked();
}
