//! Answers of an agent on Claude Code: interrupted ones are errors, structured ones are objects.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ClaudeFault, FakeClaude, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{claude::Bench, project::Project};

const FORMAT: &str = "response_format: {type: object, properties: {days: {type: integer}}, required: [days], \
                      additionalProperties: false}";

fn claude_agent(more: &str) -> String {
    format!(
        "name: policies\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Be brief}}\n{more}\n"
    )
}

#[test]
fn a_case_that_the_cli_interrupted_is_an_error_of_the_run() {
    let fake = FakeClaude::new(&ClaudeFault::InterruptsItself);
    let cases = "test_cases: [{name: first, input: a, ground_truth: Answer}, {name: second, input: b, ground_truth: Answer}]\n\
                 evaluations: {metrics: [{type: standard, metric: contains}]}";
    let bench = Bench::new(&claude_agent(cases), AnthropicServer::replies([]));
    let output = bench
        .command(&["test"])
        .env("HOLODECK_CLAUDE_CLI", fake.path())
        .output()
        .unwrap();
    let ran = crate::project::CommandOutput::of(&output)
        .exits(3)
        .says("2 error");
    assert!(
        ran.stdout.contains("first") && ran.stdout.contains("second"),
        "{}",
        ran.all()
    );
    assert_eq!(bench.project.journal_grades().len(), 2);
    bench.server.finish();
}

#[test]
fn run_prints_the_object_of_an_agent_with_a_response_format_on_claude() {
    let server = AnthropicServer::answering(|_| {
        AnthropicReply::text("Let me see.").and_tool_use("StructuredOutput", &json!({"days": 30}))
    });
    let bench = Bench::new(&claude_agent(FORMAT), server);
    let ran = bench.run(&["run", "How long?"]).exits(0);
    assert_eq!(ran.stdout, "{\"days\":30}\n");
    bench.server.finish();
}

#[test]
fn run_prints_one_object_when_the_first_attempt_was_repaired() {
    let server = ModelServer::replies([
        Reply::text("{\"days\": \"thirty\"}"),
        Reply::text("```json\n{ \"days\": 30 }\n```"),
    ]);
    let yaml = format!(
        "name: policies\nmodel: {{provider: openai, name: m, endpoint: {}}}\ninstructions: {{inline: Be brief}}\n{FORMAT}\n",
        server.url()
    );
    let ran = Project::with(&yaml).run(&["run", "How long?"]).exits(0);
    assert_eq!(ran.stdout, "{\"days\":30}\n");
    server.finish();
}
