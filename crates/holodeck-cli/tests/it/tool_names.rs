//! Tool identities: expectations, approval rules and lists accept every name of a tool.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    claude::Bench,
    project::{CommandOutput, Project},
};

/// A stdio server with the tools `lookup` and `erase`.
const SHELVES: &str = r#"while IFS= read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shelves","version":"1"}}'
    ;;
  *'"method":"tools/list"'*)
    result='{"tools":[{"name":"lookup","inputSchema":{"type":"object"}},{"name":"erase","inputSchema":{"type":"object"}}]}'
    ;;
  *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"third shelf"}]}'; echo called >>calls ;;
  *'"method":"notifications/'*) continue ;;
  *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// An agent with a search `kb`, the function `pay`, the functions `deny_refund` and `database_search`, and one case.
fn agent(model: &str, more: &str, case: &str) -> String {
    format!(
        "name: shop\nmodel: {{{model}, name: test-model}}\ninstructions: {{inline: Be brief.}}\n\
         embedding_provider: {{provider: hash}}\n\
         execution: {{parallel_test_cases: 1}}\n\
         test_cases:\n  - {{name: one, input: go, {case}}}\n\
         tools:\n  \
         - {{type: vectorstore, name: kb, description: Finds., source: docs, mock: {{result: [first passage, second passage]}}}}\n  \
         - {{type: function, name: pay, description: Pays., command: /bin/sh, args: [-c, 'echo paid | tee -a paid'],\n     \
              parameters: {{amount: {{type: integer}}}}}}\n  \
         - {{type: function, name: breaks, description: Fails., command: /bin/sh, args: [-c, 'exit 3'], parameters: {{}}}}\n  \
         - {{type: function, name: sleeps, description: Waits., command: /bin/sleep, args: ['60'], timeout_ms: 50, \
              parameters: {{}}}}\n  \
         - {{type: function, name: deny_refund, description: No., command: /bin/echo, args: ['no'], parameters: {{}}}}\n  \
         - {{type: function, name: database_search, description: Rows., command: /bin/echo, args: ['no'], \
              parameters: {{}}}}\n{more}\n"
    )
}

const SERVER: &str =
    "  - {type: mcp, name: shelves, description: Shelves., command: /bin/sh, args: [shelves.sh]}\n";

/// A model that calls `tool` once.
fn calling(tool: &'static str, arguments: &Value) -> ModelServer {
    let arguments = arguments.clone();
    ModelServer::answering(move |request| {
        let called = request.messages().iter().any(|message| message["role"] == "tool");
        if called {
            Reply::text("done")
        } else {
            Reply::tool_call("call-1", tool, &arguments)
        }
    })
}

/// Runs a test of an agent whose model calls `tool` once.
fn openai(
    tool: &'static str,
    arguments: &Value,
    more: &str,
    case: &str,
) -> (Project, CommandOutput, Vec<ReceivedRequest>) {
    let server = calling(tool, arguments);
    let project = Project::with(&agent(
        &format!("provider: openai, endpoint: '{}'", server.url()),
        more,
        case,
    ));
    project.write("shelves.sh", SHELVES);
    project.write("docs/a.md", "Returns take 30 days.");
    let ran = project.run(&["test"]);
    (project, ran, server.finish())
}

/// The same on the real Claude CLI, where the model uses the wire name.
fn claude(tool: &'static str, arguments: &Value, more: &str, case: &str) -> (Bench, CommandOutput) {
    let arguments = arguments.clone();
    let server = AnthropicServer::answering(move |request| {
        if request.tool_results().is_empty() {
            AnthropicReply::tool_use(tool, &arguments)
        } else {
            AnthropicReply::text("done")
        }
    });
    let bench = Bench::new(&agent("provider: anthropic", more, case), server);
    bench.project.write("shelves.sh", SHELVES);
    bench.project.write("docs/a.md", "Returns take 30 days.");
    let ran = bench.run(&["test"]);
    (bench, ran)
}

/// The names of the tools that a request shows the model.
fn offered(request: &ReceivedRequest) -> Vec<String> {
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

fn expecting(tool: &str) -> String {
    format!("expected_tools: [{tool}]")
}

fn forbidding(tool: &str) -> String {
    format!("forbidden_tools: [{tool}]")
}

/// YAML blocks that refuse a call of `pay`.
const REFUSING: [(&str, &str, &str); 2] = [
    (
        "approvals: {rules: [{tools: pay, decision: reject}]}",
        "pay",
        "pay (rejected)",
    ),
    ("openai: {disallowed_tools: [pay]}", "pay", "pay (not allowed)"),
];

#[test]
fn a_call_that_did_not_run_meets_no_expectation() {
    let amount = json!({"amount": 3});
    for (block, tool, message) in REFUSING {
        let (project, ran, _) = openai(tool, &amount, block, &expecting("pay"));
        ran.exits(1).says(&format!("not called: pay; called: {message}"));
        assert!(!project.path("paid").exists(), "{block}");
        openai(tool, &amount, block, &forbidding("pay"))
            .1
            .exits(1)
            .says("forbidden_tools: called: pay (call 1");
    }
    // An unknown tool that the test expects, and a known one with arguments that its schema refuses.
    for (tool, arguments, message) in [
        ("invented", json!({}), "invented (no such tool)"),
        ("pay", json!({"amount": "much"}), "pay (invalid arguments)"),
    ] {
        let (project, ran, _) = openai(tool, &arguments, "", &expecting(tool));
        ran.exits(1).says(&format!("called: {message}"));
        assert!(!project.path("paid").exists(), "{tool}");
        openai(tool, &arguments, "", &forbidding(tool))
            .1
            .exits(1)
            .says("forbidden_tools: called: ");
    }
    let (project, ran, _) = openai("pay", &amount, "", &expecting("pay"));
    ran.exits(0);
    assert!(project.path("paid").exists());
}

#[test]
fn a_call_that_ran_and_failed_counts_and_is_shown_as_failed() {
    for tool in ["breaks", "sleeps"] {
        let (project, ran, _) = openai(tool, &json!({}), "", &expecting(tool));
        ran.exits(0);
        let call = &project.run_file()["report"]["results"][0]["tool_invocations"][0];
        assert!(call["error"].is_string(), "{call}");
        assert_eq!(call["refused"], Value::Null, "{call}");
        let both = format!("expected_tools: [{tool}, pay]");
        openai(tool, &json!({}), "", &both)
            .1
            .exits(1)
            .says(&format!("called: {tool} (failed)"));
    }
}

#[test]
fn on_claude_a_call_that_did_not_run_meets_no_expectation() {
    const PAY: &str = "mcp__holodeck_tools__pay";
    let amount = json!({"amount": 3});
    for (block, tool, arguments, message) in [
        (
            "approvals: {rules: [{tools: pay, decision: reject}]}",
            PAY,
            &amount,
            "pay (rejected)",
        ),
        (
            "claude: {disallowed_tools: [pay]}",
            PAY,
            &amount,
            "(no such tool)",
        ),
        ("", "mcp__holodeck_tools__invented", &json!({}), "(no such tool)"),
        ("", PAY, &json!({"amount": "much"}), "pay (invalid arguments)"),
    ] {
        let expected = if tool == PAY { "pay" } else { tool };
        let (bench, ran) = claude(tool, arguments, block, &expecting(expected));
        ran.exits(1).says(message);
        assert!(!bench.project.path("paid").exists(), "{block}");
    }
    let (bench, ran) = claude(PAY, &amount, "", &expecting("pay"));
    ran.exits(0);
    assert!(bench.project.path("paid").exists());
}

#[test]
fn part_of_a_name_is_not_the_name() {
    for (called, expected, exit) in [
        ("deny_refund", "refund", 1),
        ("database_search", "ase", 1),
        ("database_search", "search", 1),
        ("database_search", "database", 1),
        ("kb_search", "search", 1),
        ("kb_search", "kb", 0),
        ("kb_search", "kb_search", 0),
        ("kb_search", "mcp__holodeck_tools__kb_search", 0),
    ] {
        let arguments = json!({"query": "returns"});
        let (_, ran, _) = openai(called, &arguments, "", &expecting(expected));
        let ran = ran.exits(exit);
        if exit == 1 {
            ran.says(&format!("not called: {expected}; called: {called}"));
        }
    }
    for expected in ["lookup", "shelves__lookup", "mcp__shelves__lookup", "shelves"] {
        openai("mcp__shelves__lookup", &json!({}), SERVER, &expecting(expected))
            .1
            .exits(0);
    }
    openai("mcp__shelves__lookup", &json!({}), SERVER, &expecting("look"))
        .1
        .exits(1);
}

#[test]
fn a_bare_name_of_two_servers_is_refused_though_one_was_called() {
    let two = format!("{SERVER}{}", SERVER.replace("shelves, ", "cellar, "));
    let message = "'lookup' is the name of several tools: mcp__cellar__lookup, mcp__shelves__lookup";
    let called = "mcp__shelves__lookup";
    for (expected, exit) in [("lookup", 1), ("shelves__lookup", 0), ("cellar__lookup", 1)] {
        let (project, ran, _) = openai(called, &json!({}), &two, &expecting(expected));
        let ran = ran.exits(exit);
        if expected == "lookup" {
            ran.says(message);
        }
        // Regrading starts no server.
        project.run(&["test", "regrade", "latest"]).exits(exit);
        let (bench, ran) = claude(called, &json!({}), &two, &expecting(expected));
        let ran = ran.exits(exit);
        if expected == "lookup" {
            ran.says(message);
        }
        bench.run(&["test", "regrade", "latest"]).exits(exit);
    }
}

#[test]
fn a_name_that_no_tool_has_is_reported_with_what_was_meant() {
    for (provider, more) in [("provider: openai", ""), ("provider: anthropic", "")] {
        for (name, suggestion) in [
            ("refund", None),
            ("deny_refnd", Some("deny_refund")),
            ("kbb", Some("kb")),
        ] {
            let case = format!("expected_tools: [{name}], ground_truth: x");
            let project = Project::with(&agent(provider, more, &case));
            project.write("docs/a.md", "x");
            let ran = project.run(&["validate"]);
            let message = format!("expected tool `{name}` is not among the `tools`");
            let ran = ran.says(&message);
            if let Some(suggestion) = suggestion {
                ran.says(&format!("did you mean `{suggestion}`?"));
            }
        }
    }
}

#[test]
fn on_claude_a_rule_reaches_a_search_by_its_declared_name() {
    let query = json!({"query": "returns"});
    let mode = "claude: {permission_mode: acceptAll, i_understand_this_is_unsafe: true}\n";
    for name in ["kb", "kb_search", "mcp__holodeck_tools__kb_search"] {
        let rejecting = format!("{mode}approvals: {{rules: [{{tools: {name}, decision: reject}}]}}");
        let (bench, ran) = claude(
            "mcp__holodeck_tools__kb_search",
            &query,
            &rejecting,
            &expecting("kb"),
        );
        ran.exits(1).says("kb_search (rejected)");
        let requests = bench.server.finish();
        // A rule never hides a tool.
        assert!(
            requests[0]
                .tool_names()
                .contains(&"mcp__holodeck_tools__kb_search")
        );
        let approving = format!("approvals: {{rules: [{{tools: {name}, decision: approve}}]}}");
        claude(
            "mcp__holodeck_tools__kb_search",
            &query,
            &approving,
            &expecting("kb"),
        )
        .1
        .exits(0);
    }
}

#[test]
fn a_denied_tool_is_not_offered_and_a_typo_stops_the_run_before_it_begins() {
    let query = json!({"query": "returns"});
    for list in [
        "openai: {disallowed_tools: [kb, erase]}",
        "openai: {permissions: {disallowed_tools: [kb, erase]}}",
    ] {
        let more = format!("{SERVER}{list}");
        let (_, ran, requests) = openai("kb_search", &query, &more, &expecting("kb"));
        ran.exits(1).says("kb_search (not allowed)");
        let names = offered(&requests[0]);
        assert!(!names.contains(&"kb_search".to_owned()), "{names:?}");
        assert!(!names.contains(&"mcp__shelves__erase".to_owned()), "{names:?}");
        assert!(names.contains(&"mcp__shelves__lookup".to_owned()), "{names:?}");
    }
    for (list, message) in [
        (
            "openai: {disallowed_tools: [kbb]}",
            "`kbb` in `openai.disallowed_tools`",
        ),
        ("openai: {disallowed_tools: [eraze]}", "did you mean `erase`?"),
        (
            "openai: {permissions: {allowed_tools: [kb, shelves__lokup]}}",
            "`shelves__lokup` in `openai.permissions.allowed_tools`",
        ),
    ] {
        let (project, ran, requests) =
            openai("kb_search", &query, &format!("{SERVER}{list}"), &expecting("kb"));
        ran.exits(2).says(message);
        assert_eq!(requests.len(), 0, "{list}");
        assert!(!project.path("results").exists());
    }
}

#[test]
fn on_claude_a_denied_tool_is_not_offered_and_a_typo_stops_the_run_before_it_begins() {
    let query = json!({"query": "returns"});
    let denying = format!("{SERVER}claude: {{disallowed_tools: [kb, erase]}}");
    let (bench, ran) = claude(
        "mcp__holodeck_tools__kb_search",
        &query,
        &denying,
        &expecting("kb"),
    );
    ran.exits(1);
    let requests = bench.server.finish();
    let names = requests[0].tool_names();
    assert!(!names.contains(&"mcp__holodeck_tools__kb_search"), "{names:?}");
    assert!(!names.contains(&"mcp__shelves__erase"), "{names:?}");
    assert!(names.contains(&"mcp__shelves__lookup"), "{names:?}");
    assert!(names.contains(&"mcp__holodeck_tools__pay"), "{names:?}");
    for (list, message) in [
        (
            "claude: {disallowed_tools: [kbb]}",
            "`kbb` in `claude.disallowed_tools`",
        ),
        ("claude: {disallowed_tools: [eraze]}", "did you mean `erase`?"),
        (
            "claude: {allowed_tools: [kb, shelves__lokup]}",
            "`shelves__lokup` in `claude.allowed_tools`",
        ),
    ] {
        let more = format!("{SERVER}{list}");
        let (bench, ran) = claude("mcp__holodeck_tools__kb_search", &query, &more, &expecting("kb"));
        ran.exits(2).says(message);
        assert_eq!(bench.server.finish().len(), 0, "{list}");
    }
}

#[test]
fn an_allowlist_offers_exactly_what_it_names() {
    let (_, ran, requests) = openai(
        "kb_search",
        &json!({"query": "returns"}),
        &format!("{SERVER}openai: {{permissions: {{allowed_tools: [kb, lookup]}}}}"),
        &expecting("kb"),
    );
    ran.exits(0);
    assert_eq!(offered(&requests[0]), ["kb_search", "mcp__shelves__lookup"]);
}

#[test]
fn on_claude_an_allowlist_offers_exactly_what_it_names() {
    for (list, expected) in [
        ("[Read]", &["Read"][..]),
        ("[kb]", &["mcp__holodeck_tools__kb_search"]),
        (
            "[kb, shelves__lookup]",
            &["mcp__holodeck_tools__kb_search", "mcp__shelves__lookup"],
        ),
        (
            "[lookup, mcp__holodeck_tools__pay]",
            &["mcp__holodeck_tools__pay", "mcp__shelves__lookup"],
        ),
        (
            "[mcp__shelves, Glob]",
            &["Glob", "mcp__shelves__erase", "mcp__shelves__lookup"],
        ),
    ] {
        let server = AnthropicServer::answering(|_| AnthropicReply::text("done"));
        let more = format!("{SERVER}claude: {{allowed_tools: {list}}}");
        let text = agent(
            "provider: anthropic",
            &more,
            "ground_truth: done, evaluations: [{metric: contains}]",
        );
        let bench = Bench::new(&text, server);
        bench.project.write("shelves.sh", SHELVES);
        bench.project.write("docs/a.md", "x");
        bench.run(&["test"]).exits(0);
        let requests = bench.server.finish();
        let mut names = requests[0].tool_names();
        names.sort_unstable();
        assert_eq!(names, expected, "{list}");
    }
}

#[test]
fn validate_reports_what_an_allowlist_excludes() {
    for (provider, list) in [
        (
            "provider: anthropic",
            "claude: {bash: {enabled: true}, allowed_tools: [kb, Read]}",
        ),
        ("provider: openai", "openai: {permissions: {allowed_tools: [kb]}}"),
    ] {
        let project = Project::with(&agent(provider, &format!("{SERVER}{list}"), "ground_truth: x"));
        project.write("docs/a.md", "x");
        project.write("shelves.sh", SHELVES);
        let ran = project.run(&["validate"]);
        for tool in [
            "pay",
            "breaks",
            "sleeps",
            "deny_refund",
            "database_search",
            "shelves",
        ] {
            assert!(
                ran.all().contains(&format!("leaves out tool `{tool}`")),
                "{tool}: {}",
                ran.all()
            );
        }
        assert!(!ran.all().contains("leaves out tool `kb`"), "{}", ran.all());
        assert_eq!(
            ran.all().contains("leaves out `Bash`"),
            provider.contains("anthropic"),
            "{}",
            ran.all()
        );
    }
}

#[test]
fn a_sub_agent_gets_the_search_that_its_list_names() {
    let server = AnthropicServer::answering(|request| {
        let names = request.tool_names();
        if names.contains(&"Agent") && request.tool_results().is_empty() {
            let input = json!({"description": "d", "prompt": "look", "subagent_type": "helper"});
            AnthropicReply::tool_use("Agent", &input)
        } else if names.contains(&"Agent") {
            AnthropicReply::text("main is done")
        } else {
            AnthropicReply::text(format!("sub has {}", names.join(" ")))
        }
    });
    let more = "claude: {agents: {helper: {description: Helps., prompt: Help., tools: [kb]}}}";
    let case = "ground_truth: main is done, evaluations: [{metric: contains}], expected_tools: [Agent]";
    let bench = Bench::new(&agent("provider: anthropic", more, case), server);
    bench.project.write("docs/a.md", "x");
    bench.run(&["test"]).exits(0);
    let requests = bench.server.finish();
    let of_sub: Vec<_> = requests
        .iter()
        .map(|request| request.tool_names())
        .filter(|names| !names.contains(&"Agent"))
        .collect();
    assert_eq!(of_sub, [["mcp__holodeck_tools__kb_search"]]);
}

#[test]
fn on_claude_the_shell_runs_only_the_commands_of_its_pattern() {
    for (command, runs) in [("touch made", true), ("touch made && id", false), ("id", false)] {
        let arguments = json!({"command": command});
        let server = AnthropicServer::answering(move |request| {
            if request.tool_results().is_empty() {
                AnthropicReply::tool_use("Bash", &arguments)
            } else {
                AnthropicReply::text("done")
            }
        });
        let more = "claude: {allowed_tools: ['Bash(touch *)']}";
        let bench = Bench::new(&agent("provider: anthropic", more, &expecting("Bash")), server);
        bench.project.write("docs/a.md", "x");
        let ran = bench.run(&["test", "--allow-side-effects"]);
        let ran = ran.exits(i32::from(!runs));
        if !runs {
            ran.says("Bash (not allowed)");
        }
        assert_eq!(bench.project.path("made").exists(), runs, "{command}");
        assert_eq!(bench.server.finish()[0].tool_names(), ["Bash"]);
    }
}

#[test]
fn retrieval_context_is_what_searches_found_in_their_order() {
    let (project, ran, _) = openai("kb_search", &json!({"query": "returns"}), "", &expecting("kb"));
    ran.exits(0);
    let result = &project.run_file()["report"]["results"][0];
    assert_eq!(
        result["retrieval_context"],
        json!(["first passage", "second passage"])
    );
    let call = &result["tool_invocations"][0];
    assert_eq!(
        (&call["kind"], &call["side_effects"]),
        (&json!("retrieval"), &json!("none"))
    );
    let (bench, ran) = claude(
        "mcp__holodeck_tools__kb_search",
        &json!({"query": "x"}),
        "",
        &expecting("kb"),
    );
    ran.exits(0);
    let result = &bench.project.run_file()["report"]["results"][0];
    assert_eq!(
        result["retrieval_context"],
        json!(["first passage", "second passage"])
    );
    assert_eq!(result["tool_invocations"][0]["kind"], "retrieval");
}
