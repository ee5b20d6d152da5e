//! Prompt tools, the same on every backend.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use serde_json::json;

use crate::{claude::Bench, project::Project};

/// One case whose answer must be what the tool said. `tool` is what the tool says of its model.
fn yaml(model: &str, tool: &str) -> String {
    format!(
        "name: prompting\nmodel: {{{model}}}\ninstructions: {{inline: Use your tools.}}\n\
         tools:\n\
         \x20 - type: prompt\n    name: haiku\n    description: Writes a haiku.\n\
         \x20   template: \"Write {{{{ lines }}}} lines about {{{{ subject }}}}.\"\n\
         \x20   parameters: {{subject: {{type: string}}, lines: {{type: integer, default: 3}}}}\n{tool}\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases: [{{name: poem, input: A poem!, ground_truth: old pond, expected_tools: [haiku]}}]\n"
    )
}

const PROMPT: &str = "Write 3 lines about frogs.";

fn poet() -> ModelServer {
    ModelServer::answering(|request| {
        if request.texts("user") == [PROMPT] {
            assert!(request.texts("system").is_empty() && request.body["tools"].is_null());
            return Reply::text("old pond");
        }
        match request.texts("tool").first() {
            Some(result) => Reply::text(*result),
            None => Reply::tool_call("c1", "haiku", &json!({"subject": "frogs"})),
        }
    })
}

#[test]
fn a_prompt_tool_asks_the_agents_model() {
    let server = poet();
    let model = format!(
        "provider: openai, name: m, temperature: 0.1, endpoint: \"{}\"",
        server.url()
    );
    let project = Project::with(&yaml(&model, ""));
    project
        .run(&["test", "--record", "tape.jsonl"])
        .exits(0)
        .says("1 passed");
    let asked = server.finish();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[1].body["temperature"], 0.1);
    // The call of the tool is in the recording, and its model's beside it.
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    assert_eq!(project.read("tape.jsonl").lines().count(), 1 + 3 + 2);
}

#[test]
fn a_prompt_tool_may_have_a_model_of_its_own() {
    let (agent, other) = (poet(), poet());
    let model = format!(
        "provider: openai, name: m, temperature: 0.1, api_key: key-of-the-agent, endpoint: \"{}\"",
        agent.url()
    );
    let own = format!(
        "    model: {{name: poet, endpoint: \"{}\", max_tokens: 50}}\n",
        other.url()
    );
    let project = Project::with(&yaml(&model, &own));
    project.run(&["test"]).exits(0).says("1 passed");
    assert_eq!(agent.finish().len(), 2);
    let asked = other.finish();
    assert_eq!(asked.len(), 1);
    let body = &asked[0].body;
    assert_eq!(
        (&body["model"], &body["temperature"], &body["max_tokens"]),
        (&json!("poet"), &json!(0.1), &json!(50))
    );
    // A key is sent to the server it was written for, and to no other.
    assert_eq!(asked[0].header("authorization"), None);
}

#[test]
fn a_model_that_fails_is_an_answer_of_the_tool() {
    let server = ModelServer::answering(|request| {
        if request.texts("user") == [PROMPT] {
            return Reply::openai_error(400, "no poems today", None, None);
        }
        match request.texts("tool").first() {
            Some(result) => Reply::text(*result),
            None => Reply::tool_call("c1", "haiku", &json!({"subject": "frogs"})),
        }
    });
    let model = format!("provider: openai, name: m, endpoint: \"{}\"", server.url());
    let project = Project::with(&yaml(&model, ""));
    project.run(&["test"]).exits(1);
    let result = &project.run_file()["report"]["results"][0];
    let call = &result["tool_invocations"][0];
    assert!(
        call["error"].as_str().unwrap().contains("no poems today"),
        "{result}"
    );
    server.finish();
}

#[test]
fn a_prompt_tool_of_a_claude_agent_asks_through_the_cli() {
    let server = AnthropicServer::answering(|request| {
        if request.prompt() == PROMPT {
            assert!(request.tool_names().is_empty());
            return AnthropicReply::text("old pond");
        }
        match request.tool_results().first() {
            Some(result) => AnthropicReply::text(result.text.clone()),
            None => AnthropicReply::tool_use("mcp__holodeck_tools__haiku", &json!({"subject": "frogs"})),
        }
    });
    let bench = Bench::new(&yaml("provider: anthropic, name: sonnet", ""), server);
    bench.run(&["test"]).exits(0).says("1 passed");
    bench.server.finish();
}

#[test]
fn a_claude_agent_may_ask_another_providers_model() {
    let poet = poet();
    let server = AnthropicServer::answering(|request| match request.tool_results().first() {
        Some(result) => AnthropicReply::text(result.text.clone()),
        None => AnthropicReply::tool_use("mcp__holodeck_tools__haiku", &json!({"subject": "frogs"})),
    });
    let own = format!(
        "    model: {{provider: ollama, name: poet, endpoint: \"{}\"}}\n",
        poet.url()
    );
    let bench = Bench::new(&yaml("provider: anthropic, name: sonnet", &own), server);
    bench.run(&["test"]).exits(0).says("1 passed");
    assert_eq!(poet.finish().len(), 1);
    bench.server.finish();
}

#[test]
fn templates_that_can_not_work_are_told_by_validate() {
    let yaml = yaml("provider: ollama, name: m, endpoint: \"http://127.0.0.1:9\"", "");
    let project = Project::with(&yaml.replace("{{ subject }}", "{{ subjct }}"));
    project
        .run(&["validate"])
        .exits(0)
        .says("`template` of tool `haiku` uses `subjct`, which no parameter is called");
    project.write("agent.yaml", yaml.replace("{{ subject }}", "{{ subject"));
    project.run(&["validate"]).exits(2).says("is no usable template");
}
