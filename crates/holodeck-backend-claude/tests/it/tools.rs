//! Tools: only configured ones, those of Claude Code, and own tools.

use std::fs;

use holodeck_backend_api::{AgentBackend as _, Outcome, ToolOutput, TurnRequest, collect};
use holodeck_backend_claude::{ClaudeBackend, Tools};
use holodeck_testkit::{AnthropicReply, AnthropicServer, red_dot};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::setup::{approve_all, ask, options};

#[tokio::test]
async fn exactly_the_configured_tools_are_offered() {
    for configured in [&[][..], &["Read", "Glob", "Grep"]] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let options = options(&server).builtin_tools(configured.iter().copied());
        ask(options, "hi").await.result();
        let requests = server.finish();
        let mut offered = requests[0].tool_names();
        let mut expected = configured.to_vec();
        offered.sort_unstable();
        expected.sort_unstable();
        assert_eq!(offered, expected);
        assert!(requests[0].system().contains(&"be brief"));
        assert_eq!(requests[0].model(), "claude-sonnet-4-5");
    }
}

#[tokio::test]
async fn an_excluded_command_is_denied_inside_others_too() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("kept"), "").unwrap();
    let bash = |command: &str| json!({ "command": command });
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Bash", &bash("echo a && rm kept"))
            .and_tool_use("Bash", &bash("rm -f kept"))
            .and_tool_use("Bash", &bash("echo fine")),
        AnthropicReply::text("done"),
    ]);
    let options = options(&server)
        .builtin_tools(["Bash"])
        .disallowed_tools(["Bash(rm:*)"])
        .approver(approve_all())
        .working_directory(folder.path());
    let log = ask(options, "go").await;
    assert_eq!(log.result().outcome, Outcome::Completed);
    assert!(folder.path().join("kept").exists());
    let results = server.finish()[1].last_results();
    assert!(results[0].1 && results[1].1, "{results:?}");
    assert_eq!(results[2], ("fine".to_owned(), false));
}

#[tokio::test]
async fn a_web_search_is_a_second_call_of_the_model() {
    let server = AnthropicServer::answering(|request| {
        if request
            .tools()
            .iter()
            .any(|tool| tool["type"] == "web_search_20250305")
        {
            AnthropicReply::text("It rained in Oslo.")
        } else if request.tool_results().is_empty() {
            AnthropicReply::tool_use("WebSearch", &json!({"query": "weather in Oslo"}))
        } else {
            AnthropicReply::text("Rain.")
        }
    });
    let options = options(&server)
        .builtin_tools(["WebSearch"])
        .approver(approve_all());
    let log = ask(options, "How is the weather in Oslo?").await;
    assert_eq!(log.result().response, "Rain.");
    assert_eq!(log.result().tool_calls[0].name, "WebSearch");
    let requests = server.finish();
    assert_eq!(requests.len(), 3);
    assert!(requests[1].prompt().contains("weather in Oslo"));
    assert!(requests[2].tool_results()[0].text.contains("It rained in Oslo."));
}

/// A red dot.
const PNG: [u8; 70] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00,
    0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xfc, 0xcf, 0xc0, 0x50, 0x0f, 0x00, 0x04,
    0x85, 0x01, 0x80, 0x84, 0xa9, 0x8c, 0x21, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42,
    0x60, 0x82,
];

#[tokio::test]
async fn an_image_file_that_is_read_reaches_the_model_as_an_image() {
    let folder = tempdir().unwrap();
    let picture = folder.path().join("dot.png");
    fs::write(&picture, PNG).unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Read", &json!({"file_path": picture})),
        AnthropicReply::text("A dot."),
    ]);
    let options = options(&server)
        .builtin_tools(["Read"])
        .working_directory(folder.path())
        .approver(approve_all());
    assert_eq!(ask(options, "What is it?").await.result().response, "A dot.");
    let requests = server.finish();
    let body = requests[1].body()["messages"].to_string();
    assert!(body.contains(r#""media_type":"image/png""#), "{body}");
}

#[tokio::test]
async fn own_tools_run_in_this_process() {
    let parameters = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    });
    let tools = Tools::new()
        .with(
            "add",
            "Adds two numbers.",
            parameters.clone(),
            |numbers, _| async move {
                let sum = numbers["a"].as_i64().unwrap() + numbers["b"].as_i64().unwrap();
                ToolOutput::ok(sum.to_string())
            },
        )
        .with("fail", "Fails.", json!({"type": "object"}), |_, _| async {
            ToolOutput::error("out of paper")
        })
        .with(
            "panic",
            "Panics.",
            json!({"type": "object"}),
            |arguments: Value, _| async move {
                assert!(arguments.is_null(), "a bug in the tool");
                ToolOutput::ok("never")
            },
        );
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__holodeck_tools__add", &json!({"a": 2, "b": 40}))
            .and_tool_use("mcp__holodeck_tools__fail", &json!({})),
        AnthropicReply::text("42"),
        AnthropicReply::tool_use("mcp__holodeck_tools__panic", &json!({})),
    ]);
    let backend = ClaudeBackend::new(options(&server).tools(tools)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let result = session.send("2 + 40?").await.unwrap();
    assert_eq!(
        (result.outcome.clone(), result.response.as_str()),
        (Outcome::Completed, "42")
    );
    let names: Vec<_> = result.tool_calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["add", "fail"]);
    let broken = session.send("and now?").await.unwrap();
    assert!(matches!(&broken.outcome, Outcome::ToolFailed { name, reason: Some(_) } if name == "panic"));
    session.close().await.unwrap();
    let requests = server.finish();
    let add = requests[0].tool("mcp__holodeck_tools__add").unwrap();
    assert_eq!(add["description"], "Adds two numbers.");
    assert_eq!(add["input_schema"]["properties"], parameters["properties"]);
    assert_eq!(
        requests[1].last_results(),
        [("42".to_owned(), false), ("out of paper".to_owned(), true)]
    );
}

#[tokio::test]
async fn images_of_own_tools_and_of_questions_reach_the_model() {
    let schema = json!({"type": "object"});
    let tools = Tools::new().with("picture", "Shows a dot.", schema, |_, _| async {
        ToolOutput {
            images: vec![red_dot()],
            ..ToolOutput::ok("a dot")
        }
    });
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__holodeck_tools__picture", &json!({})),
        AnthropicReply::text("red"),
    ]);
    let backend = ClaudeBackend::new(options(&server).tools(tools)).unwrap();
    let request = TurnRequest {
        images: vec![red_dot()],
        ..TurnRequest::new("Which colour?")
    };
    let result = collect(backend.start(request)).await.unwrap();
    backend.teardown().await.unwrap();
    assert_eq!(result.tool_results[0].result, "a dot\n[image]");
    let requests = server.finish();
    let data = &*red_dot().base64;
    let question = requests[0].body()["messages"].to_string();
    assert!(
        question.contains(data) && question.contains("Which colour?"),
        "{question}"
    );
    let pictures = requests[1].body()["messages"].to_string().matches(data).count();
    assert_eq!(pictures, 2);
}

#[tokio::test]
async fn the_projects_claude_md_is_read_only_if_configured() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("CLAUDE.md"), "Always mention the otter.").unwrap();
    for (sources, read) in [(&[][..], false), (&["project"], true)] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let options = options(&server)
            .working_directory(folder.path())
            .setting_sources(sources.iter().copied());
        ask(options, "hi").await.result();
        let requests = server.finish();
        let body = requests[0].body().to_string();
        assert_eq!(body.contains("Always mention the otter."), read, "{body}");
    }
}
