//! The agents of `fixtures/`, in a folder of their own.

use std::fs;

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Bench, workspace};

pub(super) fn fixture(name: &str) -> String {
    fs::read_to_string(workspace().join("fixtures").join(name)).unwrap()
}

#[test]
fn the_smallest_agent_passes_and_has_no_tools() {
    let server = AnthropicServer::answering(|request| {
        AnthropicReply::text(if request.prompt().contains("two plus two") {
            "4"
        } else {
            "Paris"
        })
    });
    let bench = Bench::new(&fixture("claude_minimal_agent.yaml"), server);
    let ran = bench.run(&["test", "-v"]).exits(0).says("2 passed");
    assert!(
        ran.stderr.contains("test cases share Claude Code processes"),
        "{}",
        ran.all()
    );
    assert_eq!(bench.pids().len(), 1);
    let summary = &bench.project.run_file()["report"]["summary"];
    assert_eq!((&summary["passed"], &summary["failed"]), (&json!(2), &json!(0)));
    for request in bench.server.finish() {
        assert_eq!(request.tool_names(), Vec::<&str>::new());
    }
}

#[test]
fn claude_judges_without_tools_and_instructions_of_the_agent() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let judge = AnthropicServer::answering(|request| {
        assert_eq!(request.tool_names(), ["StructuredOutput"]);
        if !request.tool_results().is_empty() {
            return AnthropicReply::text("done");
        }
        let score = if request.prompt().contains("Fluency") {
            2
        } else {
            5
        };
        AnthropicReply::tool_use("StructuredOutput", &json!({"reason": "so it is", "score": score}))
    });
    let yaml = format!(
        "name: support\nmodel: {{provider: openai, name: answering, endpoint: \"{}\"}}\n\
         instructions: {{inline: Instructions of the agent.}}\nevaluations:\n  \
         model: {{provider: anthropic, name: claude-sonnet-4-5}}\n  metrics:\n    \
         - {{type: standard, metric: relevance, threshold: 0.9}}\n    - {{type: standard, metric: fluency}}\n\
         test_cases: [{{name: refunds, input: How long?}}]\n",
        agent.url()
    );
    let bench = Bench::new(&yaml, judge);
    bench.run(&["test"]).exits(0);
    let metrics = bench.project.run_file()["report"]["results"][0]["metric_results"].clone();
    let found: Vec<_> = [0, 1]
        .map(|place| {
            (
                metrics[place]["score"].clone(),
                metrics[place]["model_used"].clone(),
            )
        })
        .into();
    let model = json!("claude-sonnet-4-5");
    assert_eq!(found, [(json!(1.0), model.clone()), (json!(0.4), model)]);
    for request in bench.server.finish() {
        assert!(!request.body().to_string().contains("Instructions of the agent"));
    }
}

#[test]
fn every_kind_of_tool_without_a_service_works() {
    let yaml = fixture("claude_tools_agent.yaml");
    let yaml = yaml.replace("../.smoke", workspace().join(".smoke").to_str().unwrap());
    let server = AnthropicServer::answering(|request| {
        if let Some(result) = request.tool_results().first() {
            return AnthropicReply::text(result.text.clone());
        }
        let system = request.body().to_string();
        match request.prompt() {
            prompt if prompt.contains("order 1001") => {
                AnthropicReply::tool_use("mcp__holodeck_tools__order_status", &json!({"order_id": "1001"}))
            }
            prompt if prompt.contains("gingerbread") => {
                AnthropicReply::tool_use("mcp__everything__echo", &json!({"message": "gingerbread"}))
            }
            prompt if prompt.contains("notes.txt") => {
                AnthropicReply::tool_use("Read", &json!({"file_path": "notes.txt"}))
            }
            prompt => AnthropicReply::error(400, &format!("{prompt} {system}")),
        }
    });
    let bench = Bench::new(&yaml, server);
    for file in ["notes.txt", "orders.py"] {
        let content = fs::read(workspace().join("fixtures/claude_tools").join(file)).unwrap();
        bench.project.write(&format!("claude_tools/{file}"), content);
    }
    let ran = bench.run(&["test", "-v"]).exits(0).says("3 passed");
    assert!(
        ran.stderr
            .contains("every test case gets its own Claude Code process: its MCP servers may keep state"),
        "{}",
        ran.all()
    );
    let report = bench.project.run_file();
    for result in report["report"]["results"].as_array().unwrap() {
        assert_eq!(result["state"], "passed", "{result}");
        assert_eq!(result["tools_matched"], true, "{result}");
        assert_eq!(result["metric_results"][0]["passed"], true, "{result}");
    }
    // Each case had a process of its own.
    assert!(bench.pids().len() >= 3);
    bench.server.finish();
}
