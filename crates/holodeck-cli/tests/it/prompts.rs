//! Prompt tools, the same on every backend.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use serde_json::json;

use crate::{claude::Bench, project::Project};

/// One case whose answer must be the result of the tool. `tool` has further fields of the tool.
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
    assert_eq!(tokens(&project), 3 * 15);
    // The recording has the call of the tool and that of the tool's model.
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    assert_eq!(tokens(&project), 3 * 15);
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

fn tokens(project: &Project) -> u64 {
    let result = &project.run_file()["report"]["results"][0];
    result["token_usage"]["total_tokens"].as_u64().unwrap()
}

#[test]
fn the_cost_of_a_prompt_tools_model_counts_against_the_budget() {
    let server = poet();
    let model = format!("provider: openai, name: m, endpoint: \"{}\"", server.url());
    let yaml = yaml(&model, "    model: {name: dear}\n");
    let case = "{name: poem, input: A poem!, ground_truth: old pond, expected_tools: [haiku]}";
    let project = Project::with(&yaml.replace(case, &format!("{case}, {}", case.replace("poem", "more"))));
    let prices = |dear: &str| {
        format!("{{\"as_of\": \"2026-11-21\", \"models\": {{\"m\": {{\"input\": 1, \"output\": 2}}{dear}}}}}")
    };
    project.write("prices.json", prices(""));
    project
        .run(&["test", "--max-cost-usd", "0.001"])
        .exits(2)
        .says("no price known for `dear` (price list");
    project.write(
        "prices.json",
        prices(", \"dear\": {\"input\": 100, \"output\": 200}"),
    );
    project
        .run(&["test", "-j", "1", "--max-cost-usd", "0.001"])
        .exits(6)
        .says("cost budget used up");
    // Twice the agent's model, and once the tool's: 10 tokens in and 5 out each.
    let cost = project.run_file()["report"]["results"][0]["cost_usd"]
        .as_f64()
        .unwrap();
    assert!((cost - 0.002_04).abs() < 1e-9, "{cost}");
    project
        .run(&["test", "-j", "1", "--max-tokens-total", "40"])
        .exits(6)
        .says("token budget used up: 45 of 40");
    server.finish();
}

#[test]
fn unreported_tokens_of_a_tool_are_not_counted_as_zero() {
    let server = ModelServer::answering(|request| {
        if request.texts("user") == [PROMPT] {
            return Reply::text("old pond").without_usage();
        }
        match request.texts("tool").first() {
            Some(result) => Reply::text(*result),
            None => Reply::tool_call("c1", "haiku", &json!({"subject": "frogs"})),
        }
    });
    let model = format!("provider: openai, name: m, endpoint: \"{}\"", server.url());
    let project = Project::with(&yaml(&model, ""));
    project.run(&["test"]).exits(0);
    let result = &project.run_file()["report"]["results"][0];
    assert!(result["token_usage"].is_null(), "{result}");
    server.finish();
}

#[test]
fn a_failing_model_is_an_error_of_the_tool() {
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
    let result = &bench.project.run_file()["report"]["results"][0];
    // The agent's own two and the tool's.
    assert_eq!(result["token_usage"]["total_tokens"], 3 * 15, "{result}");
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
fn validate_reports_invalid_templates() {
    let yaml = yaml("provider: ollama, name: m, endpoint: \"http://127.0.0.1:9\"", "");
    let project = Project::with(&yaml.replace("{{ subject }}", "{{ subjct }}"));
    project
        .run(&["validate"])
        .exits(0)
        .says("`template` of tool `haiku` uses `subjct`, but the tool has no such parameter");
    project.write("agent.yaml", yaml.replace("{{ subject }}", "{{ subject"));
    project
        .run(&["validate"])
        .exits(2)
        .says("is not a valid template");
}
