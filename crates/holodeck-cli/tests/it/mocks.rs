//! Mocked tools, with the same results on every backend.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use serde_json::{Value, json};

use crate::{claude::Bench, project::Project};

/// Two concurrent cases that each call a scripted function twice, a search and a tool of a server.
fn yaml(model: &str) -> String {
    format!(
        "name: mocked\nmodel: {{{model}}}\ninstructions: {{inline: Be kind.}}\n\
         execution: {{parallel_test_cases: 2}}\n\
         tools:\n\
         \x20 - type: function\n    name: next_number\n    description: Counts.\n    parameters: {{}}\n\
         \x20   mock: [one, two]\n\
         \x20 - type: vectorstore\n    name: kb\n    description: The handbook.\n    source: not-there/\n\
         \x20   mock: {{error: the index is broken}}\n\
         \x20 - type: mcp\n    name: weather\n    description: The weather.\n    command: not-a-program\n\
         \x20   mock: {{tools: {{today: {{description: Today., parameters: {{}}, result: {{sky: clear}}}}}}}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n\
         \x20 - {{name: first, input: Case first, ground_truth: 'one, two, the index is broken, {{\"sky\":\"clear\"}}',\n\
         \x20    expected_tools: [{{name: next_number, count: 2}}, kb_search, mcp__weather__today]}}\n\
         \x20 - {{name: second, input: Case second, ground_truth: 'one, two, the index is broken, {{\"sky\":\"clear\"}}'}}\n"
    )
}

/// The calls of the model, by the number of results so far.
const CALLS: [(&str, &str); 4] = [
    ("next_number", "{}"),
    ("next_number", "{}"),
    ("kb_search", r#"{"query": "x"}"#),
    ("mcp__weather__today", "{}"),
];

/// The visible results of the two cases, without times, tokens and the name of the built-in server.
fn essence(run: &Value) -> Vec<Value> {
    let results = run["report"]["results"].as_array().unwrap();
    let results = results.iter().map(|result| {
        let calls = result["tool_invocations"].as_array().unwrap().iter();
        let calls: Vec<_> = calls
            .map(|call| {
                let name = call["name"].as_str().unwrap();
                let name = name.strip_prefix("mcp__holodeck_tools__").unwrap_or(name);
                json!([name, call["args"], call["result"], call["error"].is_null()])
            })
            .collect();
        json!([
            result["test_name"],
            result["state"],
            result["tools_matched"],
            calls
        ])
    });
    results.collect()
}

/// The tool results of the whole conversation.
fn tool_results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    results.map(|result| text(&result["content"])).collect()
}

#[test]
fn mocks_answer_alike_on_every_backend() {
    let server = ModelServer::answering(|request| {
        let results = request.texts("tool");
        match CALLS.get(results.len()) {
            Some((name, arguments)) => {
                let id = format!("c{}", results.len());
                Reply::nothing().and_tool_call(&id, name, arguments)
            }
            None => Reply::text(results.join(", ")),
        }
    });
    let model = format!("provider: openai, name: m, endpoint: \"{}\"", server.url());
    let project = Project::with(&yaml(&model));
    project.run(&["test"]).exits(0).says("2 passed");
    let openai = essence(&project.run_file());
    server.finish();

    let server = AnthropicServer::answering(|request| {
        let results = tool_results(request.body());
        match CALLS.get(results.len()) {
            Some((name, arguments)) => {
                let name = if name.starts_with("mcp__") {
                    (*name).to_owned()
                } else {
                    format!("mcp__holodeck_tools__{name}")
                };
                AnthropicReply::tool_use(&name, &serde_json::from_str(arguments).unwrap())
            }
            None => AnthropicReply::text(results.join(", ")),
        }
    });
    let bench = Bench::new(&yaml("provider: anthropic, name: sonnet"), server);
    bench.run(&["test"]).exits(0).says("2 passed");
    assert_eq!(essence(&bench.project.run_file()), openai);
    assert!(!bench.argv().contains("--mcp-config"), "{}", bench.argv());
    bench.server.finish();
    insta::assert_json_snapshot!(openai);
}

#[test]
fn an_exhausted_mock_script_is_not_a_pass() {
    let server = ModelServer::answering(|request| {
        let id = format!("c{}", request.texts("tool").len());
        Reply::nothing().and_tool_call(&id, "f", "{}")
    });
    let project = Project::with(&format!(
        "name: mocked\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Hi}}\n\
         tools: [{{type: function, name: f, description: d, parameters: {{}}, mock: [a]}}]\n\
         test_cases: [{{input: q, expected_tools: [f]}}]\n",
        server.url()
    ));
    project.run(&["test"]).exits(3).says("tool execution failed: f");
    server.finish();
}
