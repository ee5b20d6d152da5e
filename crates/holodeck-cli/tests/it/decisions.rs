//! Expected decisions about tool calls, on both backends.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    claude::Bench,
    project::{Project, assert_output},
};

/// An agent with a search, a function and a tool of a server, whose declared, shown and wire names differ. A rule denies
/// the search, and a person must decide about the server's tool.
fn yaml(model: &str, non_interactive: &str, cases: &str) -> String {
    format!(
        "name: desk\nmodel: {{{model}}}\ninstructions: {{inline: Be kind.}}\n\
         execution: {{parallel_test_cases: 1}}\n\
         approvals:\n  non_interactive: {non_interactive}\n  rules:\n\
         \x20   - {{tools: kb, decision: reject}}\n\
         \x20   - {{tools: weather, approver: human}}\n\
         tools:\n\
         \x20 - {{type: vectorstore, name: kb, description: Docs., source: not-there/, mock: [found]}}\n\
         \x20 - {{type: function, name: pay, description: Pays., parameters: {{}}, mock: [paid]}}\n\
         \x20 - {{type: function, name: idle, description: Never called., parameters: {{}}, mock: [idle]}}\n\
         \x20 - {{type: mcp, name: weather, description: Weather., command: not-a-program,\n\
         \x20    mock: {{tools: {{today: {{description: Today., parameters: {{}}, result: clear}}}}}}}}\n\
         test_cases:\n{cases}"
    )
}

/// Each decision by one of the names of its tool.
const MET: &str = "  - name: met\n    input: go\n    expected_approvals:\n\
    \x20     - {tool: kb, decision: denied}\n      - {tool: kb_search, decision: denied}\n\
    \x20     - {tool: mcp__holodeck_tools__kb_search, decision: denied}\n\
    \x20     - {tool: pay, decision: allowed}\n      - {tool: weather__today, decision: asked}\n\
    \x20     - {tool: weather, decision: asked}\n";

/// Nothing of it is true.
const MISSED: &str = "  - name: missed\n    turns:\n      - input: go\n        expected_approvals:\n\
    \x20         - {tool: kb_search, decision: allowed}\n          - {tool: pay, decision: denied}\n\
    \x20         - {tool: mcp__weather__today, decision: allowed}\n\
    \x20         - {tool: mcp__weather__today, decision: denied}\n\
    \x20         - {tool: idle, decision: denied}\n          - {tool: pay, decision: asked}\n";

const CALLS: [&str; 3] = ["kb_search", "pay", "mcp__weather__today"];

/// A model that calls every tool but one.
fn model() -> ModelServer {
    ModelServer::answering(|request| match CALLS.get(request.texts("tool").len()) {
        Some(name) => {
            let id = format!("c{}", request.texts("tool").len());
            Reply::nothing().and_tool_call(&id, name, r#"{"query": "x"}"#)
        }
        None => Reply::text("done"),
    })
}

fn openai(server: &ModelServer) -> String {
    format!("provider: openai, name: m, endpoint: \"{}\"", server.url())
}

/// Tool, expected decision, decisions and verdict.
fn details(value: &Value) -> Vec<String> {
    let details = value["approval_details"].as_array().unwrap().iter();
    let line = |detail: &Value| {
        let text = |key: &str| detail[key].as_str().unwrap().to_owned();
        format!(
            "{} {} {} {}",
            text("tool"),
            text("expected"),
            detail["got"],
            detail["met"]
        )
    };
    details.map(line).collect()
}

fn check_run(run: &Value) {
    let results = &run["report"]["results"];
    assert_eq!(
        details(&results[0]),
        [
            r#"kb denied ["denied"] true"#,
            r#"kb_search denied ["denied"] true"#,
            r#"mcp__holodeck_tools__kb_search denied ["denied"] true"#,
            r#"pay allowed ["allowed"] true"#,
            r#"weather__today asked ["asked"] true"#,
            r#"weather asked ["asked"] true"#,
        ]
    );
    assert_eq!(results[0]["state"], "passed");
    assert_eq!(
        details(&results[1]["turns"][0]),
        [
            r#"kb_search allowed ["denied"] false"#,
            r#"pay denied ["allowed"] false"#,
            r#"mcp__weather__today allowed ["asked"] false"#,
            r#"mcp__weather__today denied ["asked"] false"#,
            r"idle denied [] false",
            r#"pay asked ["allowed"] false"#,
        ]
    );
    assert_eq!(results[1]["state"], "failed");
}

#[test]
fn decisions_are_compared_by_every_name_of_a_tool() {
    // Whatever is decided without a person, the person had to be asked.
    for non_interactive in ["approve", "reject"] {
        let server = model();
        let project = Project::with(&yaml(
            &openai(&server),
            non_interactive,
            &format!("{MET}{MISSED}"),
        ));
        let output = project.run(&["test"]).exits(1);
        check_run(&project.run_file());
        if non_interactive == "reject" {
            assert_output!(output);
        }
        server.finish();
    }
}

#[test]
fn every_report_shows_what_was_expected_and_decided() {
    let server = model();
    let project = Project::with(&yaml(&openai(&server), "reject", MISSED));
    let mut args = vec!["test"];
    for report in ["markdown=r.md", "html=r.html", "junit=r.xml", "jsonl=r.jsonl"] {
        args.extend(["--report", report]);
    }
    project.run(&args).exits(1);
    for file in ["r.md", "r.html", "r.xml", "r.jsonl"] {
        let report = project.read(file).replace("\\_", "_");
        for text in [
            "kb_search: expected allowed, got denied",
            "idle: expected denied, got no call",
        ] {
            assert!(report.contains(text), "no {text:?} in {file}: {report}");
        }
    }
    server.finish();
}

#[test]
fn a_regrade_compares_the_stored_decisions() {
    let server = model();
    let project = Project::with(&yaml(&openai(&server), "reject", MET));
    project.run(&["test"]).exits(0);
    let asked = server.finish().len();
    assert_eq!(asked, 4);
    let yaml = project
        .read("agent.yaml")
        .replace("{tool: pay, decision: allowed}", "{tool: pay, decision: denied}");
    project.write("agent.yaml", yaml);
    project
        .run(&["test", "regrade"])
        .exits(1)
        .says("pay: expected denied, got allowed");
}

#[test]
fn a_tool_that_may_not_be_used_is_denied() {
    let server = model();
    let yaml = yaml(
        &openai(&server),
        "reject",
        "  - {input: go, expected_approvals: [{tool: pay, decision: denied}]}\n",
    );
    let project = Project::with(&format!("{yaml}openai: {{disallowed_tools: [pay]}}\n"));
    project.run(&["test"]).exits(0);
    // A call that cannot run because the tool does not exist was not decided.
    let server = ModelServer::answering(|request| match request.texts("tool").len() {
        0 => Reply::nothing().and_tool_call("c", "ghost", "{}"),
        _ => Reply::text("done"),
    });
    for decision in ["allowed", "denied", "asked"] {
        let case =
            format!("  - {{input: go, expected_approvals: [{{tool: ghost, decision: {decision}}}]}}\n");
        let project = Project::with(&self::yaml(&openai(&server), "reject", &case));
        project
            .run(&["test"])
            .exits(1)
            .says(&format!("expected {decision}, got no such tool"));
    }
}

#[test]
fn claude_decides_alike() {
    let server = AnthropicServer::answering(|request| {
        let messages = request.body()["messages"].as_array().unwrap().iter();
        let blocks = messages
            .filter_map(|message| message["content"].as_array())
            .flatten();
        let results = blocks.filter(|block| block["type"] == "tool_result").count();
        match CALLS.get(results) {
            Some(name) if name.starts_with("mcp__") => AnthropicReply::tool_use(name, &json!({})),
            Some(name) => {
                let name = format!("mcp__holodeck_tools__{name}");
                AnthropicReply::tool_use(&name, &json!({"query": "x"}))
            }
            None => AnthropicReply::text("done"),
        }
    });
    let cases = format!("{MET}{MISSED}");
    let bench = Bench::new(
        &yaml("provider: anthropic, name: sonnet", "reject", &cases),
        server,
    );
    bench.run(&["test"]).exits(1);
    check_run(&bench.project.run_file());
    bench.server.finish();
}

/// A person must decide about `pay`, and there is none: the setting decides at once, though an answer has no time limit.
#[test]
fn a_test_without_a_person_applies_its_rule_and_does_not_wait() {
    let yaml = |model: &str, answer: &str| {
        format!(
            "name: desk\nmodel: {{{model}}}\ninstructions: {{inline: Be kind.}}\n\
             approvals: {{timeout_seconds: null, non_interactive: {answer}, rules: [{{tools: pay, approver: human}}]}}\n\
             tools:\n  - {{type: function, name: pay, description: Pays., parameters: {{}}, mock: [paid]}}\n\
             test_cases:\n  - {{name: one, input: go, expected_approvals: [{{tool: pay, decision: asked}}]}}\n"
        )
    };
    let result = |run: &Value| {
        let results = run["report"]["results"][0]["tool_invocations"]
            .as_array()
            .unwrap();
        (
            results.len(),
            results[0]["result"].as_str().unwrap_or_default().to_owned(),
        )
    };
    for (answer, expected) in [("approve", "paid"), ("reject", "no person")] {
        let server = ModelServer::answering(|request| match request.texts("tool").len() {
            0 => Reply::tool_call("c1", "pay", &json!({})),
            _ => Reply::text("done"),
        });
        let project = Project::with(&yaml(&openai(&server), answer));
        project.run(&["test"]).exits(0);
        let (calls, got) = result(&project.run_file());
        assert!(calls == 1 && got.contains(expected), "{got}");
        server.finish();

        let server = AnthropicServer::answering(|request| {
            if request.tool_results().is_empty() {
                AnthropicReply::tool_use("mcp__holodeck_tools__pay", &json!({}))
            } else {
                AnthropicReply::text("done")
            }
        });
        let bench = Bench::new(&yaml("provider: anthropic, name: sonnet", answer), server);
        bench.run(&["test"]).exits(0);
        let (calls, got) = result(&bench.project.run_file());
        assert!(calls == 1 && got.contains(expected), "{got}");
        bench.server.finish();
    }
}
