//! Specialist agents: `holodeck agents`, and test cases that expect one.

use std::path::{Path, PathBuf};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::project::{CommandOutput, Project, assert_output};

/// The agents of the repository.
fn agents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/agents")
}

fn agent(name: &str, triggers: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}\ntriggers: [{triggers}]\n---\n\nYou are {name}.\n")
}

/// Two agents and a broken file.
fn folder() -> Project {
    let project = Project::empty();
    project.write("agents/b.md", agent("reviewer", "review"));
    project.write("agents/a.md", agent("deployer", "deploy"));
    project
}

fn json(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.stdout).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    let agents = list["agents"].as_array().unwrap();
    agents
        .iter()
        .map(|agent| agent["name"].as_str().unwrap())
        .collect()
}

#[test]
fn agents_are_listed_by_name() {
    let project = folder();
    assert_output!(project.run(&["agents", "list", "--dir", "agents"]).exits(0));
    let listed = json(
        &project
            .run(&["agents", "list", "--dir", "agents", "--json"])
            .exits(0),
    );
    assert_eq!(names(&listed), ["deployer", "reviewer"]);
}

#[test]
fn two_processes_and_two_locales_select_alike() {
    let project = folder();
    project.write("agents/c.md", agent("älter", "überprüfen"));
    project.write("agents/d.md", agent("zeta", "überprüfen"));
    let select = |locale: &str| {
        let args = ["agents", "select", "ÜBERPRÜFEN", "--dir", "agents", "--json"];
        let mut command = project.command(&args);
        let output = command
            .env("LC_ALL", locale)
            .env("LANG", locale)
            .output()
            .unwrap();
        // Neither is ahead, so neither is routed.
        assert_eq!(output.status.code(), Some(1));
        output.stdout
    };
    let first = select("C");
    assert_eq!(first, select("de_DE.UTF-8"));
    assert_eq!(first, select("tr_TR.UTF-8"));
    let selection: Value = serde_json::from_slice(&first).unwrap();
    // The same score: the order is that of the bytes, and not of a language.
    assert_eq!(selection["agent"], "zeta");
    assert_eq!(selection["ranked_alternatives"][0]["agent"], "älter");
    assert_eq!(selection["ranking"][0]["score"], selection["ranking"][1]["score"]);
}

#[test]
fn of_two_agents_with_one_name_the_first_path_is_used() {
    let project = folder();
    project.write("agents/z/a.md", agent("reviewer", "other"));
    let listed = project
        .run(&["agents", "list", "--dir", "agents", "--json"])
        .exits(0);
    let value = json(&listed);
    assert_eq!(names(&value), ["deployer", "reviewer"]);
    assert_eq!(value["agents"][1]["path"], "agents/b.md");
    assert_eq!(value["diagnostics"][0]["code"], "HD0303");
    assert_output!(
        project
            .run(&["agents", "list", "--dir", "agents", "--strict"])
            .exits(2)
    );
}

#[test]
fn a_broken_file_is_skipped_with_its_line() {
    let project = folder();
    project.write("agents/broken.md", "---\nname: broken\ndescription: [a\n---\n");
    let listed = project.run(&["agents", "list", "--dir", "agents"]).exits(0);
    assert!(listed.stderr.contains("agents/broken.md:3"), "{}", listed.stderr);
    assert!(listed.stdout.contains("reviewer") && !listed.stdout.contains("broken"));
    project
        .run(&["agents", "list", "--dir", "agents", "--strict"])
        .exits(2);
    project.run(&["agents", "validate", "--dir", "agents"]).exits(2);
}

#[test]
fn a_selection_is_explained() {
    let project = folder();
    let args = [
        "agents",
        "select",
        "Please review this",
        "--dir",
        "agents",
        "--explain",
    ];
    assert_output!(project.run(&args).exits(0));
    // No agent fits, and `general-purpose` is only the default.
    let none = project
        .run(&["agents", "select", "Good morning", "--dir", "agents"])
        .exits(1);
    assert!(none.stdout.starts_with("general-purpose"), "{}", none.stdout);
    assert!(
        none.stdout.contains("not routed  low_confidence"),
        "{}",
        none.stdout
    );
}

#[test]
fn without_a_default_agent_nothing_is_selected() {
    let project = routed(
        "  - {input: x}\n",
        "http://127.0.0.1:9/v1",
        "    default_agent: null\n",
    );
    let none = project
        .run(&["agents", "select", "Good morning", "--json"])
        .exits(1);
    let value = json(&none);
    assert_eq!(
        (&value["agent"], &value["use_sdk"]),
        (&Value::Null, &Value::Bool(false))
    );
}

#[test]
fn an_agent_is_shown_as_it_is_executed() {
    let project = folder();
    project.write(
        "agents/full.md",
        "---\nname: full\ndescription: Reviews\ntools: git, Read, Nonsense\n---\n\n## Boundaries\n**Will Not:**\n- Merge\n",
    );
    assert_output!(
        project
            .run(&["agents", "show", "full", "--dir", "agents"])
            .exits(0)
    );
    let unknown = project
        .run(&["agents", "show", "ful", "--dir", "agents"])
        .exits(2);
    assert!(unknown.stderr.contains("did you mean `full`?"));
}

#[test]
fn validate_finds_what_selection_makes_of_the_agents() {
    let project = folder();
    project.write(
        "agents/claude.md",
        "---\nname: claude-style\ndescription: Plans releases\ntools: Nope\nmodel: opus\n---\nPlan.\n",
    );
    assert_output!(project.run(&["agents", "validate", "--dir", "agents"]).exits(0));
    project
        .run(&["agents", "validate", "--dir", "agents", "--strict"])
        .exits(2);
    let value = json(
        &project
            .run(&["agents", "validate", "--dir", "agents", "--json"])
            .exits(0),
    );
    let codes: Vec<_> = value["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["code"])
        .collect();
    assert_eq!(codes, ["HD0903"]);
    project.write(
        "agents/twin.md",
        agent("reviewer", "x")
            .replace("reviewer", "z")
            .replace("[x]", "[review]"),
    );
    project.write(
        "agents/vague.md",
        "---\nname: expert\ndescription: Helps with it\n---\nHelp.\n",
    );
    let found = project.run(&["agents", "validate", "--dir", "agents"]).exits(0);
    assert!(
        found.stdout.contains("agent `expert` can never be routed"),
        "{}",
        found.stdout
    );
}

/// An agent file for the agents of the repository, with these settings of `routing` and `routing.agents`.
fn with_settings(routing: &str, agents_block: &str) -> Project {
    Project::with(&format!(
        "name: a\nmodel: {{provider: anthropic, name: claude-sonnet-4-5}}\ninstructions: {{inline: x}}\n\
         routing:\n  commands: [run, review, test, audit, profile, deploy, document, analyze, design, improve]\n{routing}  \
         agents:\n    directories: [{{path: {}}}]\n{agents_block}",
        agents().display()
    ))
}

#[test]
fn the_agents_of_the_repository_have_no_problems() {
    let project = with_settings("  min_confidence: 0\n", "    algorithm: keyword-v1\n");
    project.run(&["agents", "validate", "--strict"]).exits(0);
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/routing/agents");
    project
        .run(&["agents", "validate", "--strict", "--dir", plain.to_str().unwrap()])
        .exits(0);
}

#[test]
fn settings_under_which_nothing_is_routed_are_named() {
    for (routing, agents_block, expected) in [
        (
            "  enabled: false\n",
            "",
            "no agent can ever be routed: `enabled` is false",
        ),
        (
            "  min_confidence: 0.999\n",
            "",
            "no words of a task can route an agent",
        ),
    ] {
        let project = with_settings(routing, agents_block);
        let found = project.run(&["agents", "validate", "--strict"]).exits(2);
        assert!(found.stdout.contains(expected), "{expected}: {}", found.stdout);
    }
}

/// The figures on tasks that were written before a selector ran on them: `keyword-v1` without the last gate selects no wrong
/// agent and abstains too often.
#[test]
fn the_checked_in_tasks_have_these_figures() {
    let project = with_settings("  min_confidence: 0.3\n", "");
    let tasks = agents().join("tasks.yaml");
    let args = ["agents", "eval", tasks.to_str().unwrap(), "--algorithm"];
    let both = ["search-v2,keyword-v1", "--json"];
    let reports = json(&project.run(&[&args[..], &both[..]].concat()).exits(0));
    let [search, keyword] = reports["algorithms"].as_array().unwrap().as_slice() else {
        panic!("{reports:#}");
    };
    assert_eq!(search["algorithm"], "search-v2");
    assert!(search["correct"].as_u64().unwrap() >= 90, "{search:#}");
    assert_eq!(
        (&keyword["tasks"], &keyword["correct"]),
        (&100.into(), &61.into())
    );
    assert_eq!(
        keyword["abstention"],
        serde_json::json!({"expected": 13, "selected": 52, "correct": 13})
    );
    assert_eq!(keyword["wrong"], 0);
    let confusion = keyword["confusion"].as_array().unwrap();
    assert!(
        confusion.iter().all(|row| row["selected"].is_null()),
        "{confusion:#?}"
    );
    project
        .run(&[&args[..], &["keyword-v1", "--min-top1", "0.61"]].concat())
        .exits(0);
    project
        .run(&[&args[..], &["keyword-v1", "--min-top1", "0.62"]].concat())
        .exits(1);
    let text = project
        .run(&[&args[..], &["search-v2,keyword-v1"]].concat())
        .exits(0);
    assert!(
        text.stdout.contains("keyword-v1   61.0 %  48 of 87"),
        "{}",
        text.stdout
    );
    project.run(&[&args[..], &["words-v9"]].concat()).exits(2);
}

#[test]
fn an_agent_that_is_selected_and_refused_is_not_routed() {
    let project = with_settings("  min_confidence: 0.3\n", "    algorithm: keyword-v1\n");
    project.write(
        "tasks.csv",
        "task,expected_agent\nDo a code review,code-reviewer\n",
    );
    let select = ["agents", "select", "Do a code review"];
    let eval = ["agents", "eval", "tasks.csv", "--min-top1", "1"];
    assert!(project.run(&select).exits(0).stdout.starts_with("code-reviewer"));
    project.run(&eval).exits(0);
    let strict = with_settings("  min_confidence: 0.9\n", "    algorithm: keyword-v1\n");
    strict.write("tasks.csv", project.read("tasks.csv"));
    let refused = strict.run(&select).exits(1);
    for part in [
        "code-reviewer",
        "not routed  low_confidence",
        "0.90 is needed",
        "add `triggers: [",
    ] {
        assert!(refused.stdout.contains(part), "{part}: {}", refused.stdout);
    }
    let report = strict.run(&eval).exits(1);
    assert!(
        report.stdout.contains("low_confidence of code-reviewer"),
        "{}",
        report.stdout
    );
    // A command that is not routed, for the same reason.
    let other = [&select[..], &["--command", "summarize", "--json"]].concat();
    assert_eq!(
        json(&project.run(&other).exits(1))["decision"],
        "command_not_allowed"
    );
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    let project = folder();
    for args in [
        &["agents", "select", "xyz", "--dir", "nowhere"][..],
        &["agents", "select", "xyz", "--dir", "agents", "--cwd", "nowhere"],
        &["agents", "select", "xyz", "--dir", "agents", "--dir", "nowhere"],
        &["agents", "validate", "--dir", "nowhere"],
        &["agents", "select", "xyz", "--agent", "nowhere"],
        &["agents", "eval", "nowhere", "--dir", "agents"],
    ] {
        let refused = project.run(args).exits(2);
        assert!(refused.stderr.contains("nowhere"), "{args:?}: {}", refused.all());
    }
}

#[test]
fn an_evaluation_names_the_tasks_that_went_wrong() {
    let project = folder();
    project.write(
        "tasks.csv",
        "task,expected_agent\nreview it,reviewer\ndeploy it,reviewer\nhello,\nbuild it,deployer\n",
    );
    let args = ["agents", "eval", "tasks.csv", "--dir", "agents"];
    assert_output!(project.run(&args).exits(0));
    project.write("unknown.csv", "task,expected_agent\na,nobody\n");
    project
        .run(&["agents", "eval", "unknown.csv", "--dir", "agents"])
        .exits(2);
    project.write("wrong.csv", "task,agent\na,b\n");
    project
        .run(&["agents", "eval", "wrong.csv", "--dir", "agents"])
        .exits(2);
}

#[test]
fn a_new_agent_loads_without_problems() {
    let project = folder();
    project
        .run(&["agents", "new", "release-planner", "--dir", "agents"])
        .exits(0);
    let shown = json(
        &project
            .run(&["agents", "show", "release-planner", "--dir", "agents", "--json"])
            .exits(0),
    );
    assert_eq!(
        (&shown["diagnostics"], &shown["triggers"][0]),
        (&serde_json::json!([]), &"release planner".into())
    );
    project
        .run(&["agents", "validate", "--strict", "--dir", "agents"])
        .exits(0);
    let again = project
        .run(&["agents", "new", "release-planner", "--dir", "agents"])
        .exits(2);
    assert!(again.stderr.contains("exists already"));
    for name in ["../up", "", "a b", "-x"] {
        project
            .run(&["agents", "new", "--dir", "agents", "--", name])
            .exits(2);
    }
}

#[test]
fn agents_need_a_folder() {
    let project = Project::empty();
    let missing = project.run(&["agents", "list"]).exits(2);
    assert!(missing.stderr.contains("`--dir DIR`"), "{}", missing.stderr);
    project
        .run(&["agents", "list", "--dir", "none", "--strict"])
        .exits(2);
    project.write(
        "agent.yaml",
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: x}\n",
    );
    let none = project.run(&["agents", "list"]).exits(2);
    assert!(none.stderr.contains("has no `routing.agents`"), "{}", none.stderr);
}

/// An agent with the specialists `reviewer` and `deployer`.
fn routed(cases: &str, endpoint: &str, routing: &str) -> Project {
    let project = folder();
    project.write(
        "agent.yaml",
        format!(
            "name: support\nmodel: {{provider: openai, name: test-model, endpoint: {endpoint}}}\n\
             instructions: {{inline: Answer briefly.}}\nexecution: {{parallel_test_cases: 1}}\n\
             routing:\n  commands: [run]\n  agents:\n    directories: [{{path: agents}}]\n{routing}\
             evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\ntest_cases:\n{cases}"
        ),
    );
    project
}

const ROUTES: &str = "  - {name: right, input: review it, expected_agent: reviewer}\n  \
                      - {name: wrong, input: review it, expected_agent: deployer}\n  \
                      - {name: nothing, input: good morning, expected_agent: null}\n";

/// No server answers at this address: a case that asked the agent would be an error.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

#[test]
fn a_case_that_expects_an_agent_runs_only_the_selection() {
    let project = routed(ROUTES, NOWHERE, "");
    let ran = project
        .run(&[
            "test",
            "--report",
            "junit=report.xml",
            "--report",
            "markdown=report.md",
        ])
        .exits(1);
    assert_eq!(project.states(), ["passed", "failed", "passed"]);
    let expected = "expected agent `deployer`, got `reviewer`";
    for (report, text) in [
        ("terminal", format!("{}{}", ran.stdout, ran.stderr)),
        ("junit", project.read("report.xml")),
        ("markdown", project.read("report.md")),
        ("run file", project.run_file().to_string()),
    ] {
        assert!(text.contains(expected), "{report}: {text}");
    }
    let file = project.run_file();
    assert_eq!(file["report"]["summary"]["total_tests"], 3);
}

#[test]
fn a_case_with_other_checks_asks_the_agent_too() {
    let server = ModelServer::answering(|_| Reply::text("Done."));
    let cases = "  - {name: a, input: review it, expected_agent: reviewer, ground_truth: Done}\n  \
                 - {name: b, input: review it, expected_agent: deployer, ground_truth: Done}\n  \
                 - {name: c, input: review it, expected_agent: reviewer, ground_truth: Other}\n  \
                 - {name: d, input: review it, expected_agent: reviewer}\n  \
                 - {name: e, turns: [{input: review it}, {input: deploy it}], expected_agent: deployer}\n";
    let project = routed(cases, &server.url(), "");
    project.run(&["test"]).exits(1);
    assert_eq!(
        project.states(),
        ["passed", "failed", "failed", "passed", "failed"]
    );
    // Not for `d`.
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn an_expected_agent_is_graded_again_from_the_recorded_selection() {
    let project = routed(ROUTES, NOWHERE, "");
    project.run(&["test"]).exits(1);
    // The agents change, the expectation too: the recorded selection counts.
    project.write("agents/a.md", agent("deployer", "nothing"));
    let yaml = project.read("agent.yaml").replace(
        "name: wrong, input: review it, expected_agent: deployer",
        "name: wrong, input: review it, expected_agent: reviewer",
    );
    project.write("agent.yaml", yaml);
    project.run(&["test", "regrade", "latest"]).exits(0);
    let yaml = project
        .read("agent.yaml")
        .replace("expected_agent: null", "expected_agent: reviewer");
    project.write("agent.yaml", yaml);
    project.run(&["test", "regrade", "latest"]).exits(1);
}

#[test]
fn an_answer_without_a_selection_is_an_error_and_no_verdict() {
    let server = ModelServer::answering(|_| Reply::text("Done."));
    let case = "  - {name: a, input: review it, ground_truth: Done}\n";
    let project = routed(case, &server.url(), "");
    project.run(&["test"]).exits(0);
    let yaml = project.read("agent.yaml").replace(
        "ground_truth: Done",
        "ground_truth: Done, expected_agent: reviewer",
    );
    project.write("agent.yaml", yaml);
    let graded = project.run(&["test", "regrade", "latest"]);
    assert_ne!(graded.code, Some(0), "{graded:?}");
    assert_eq!(project.states(), ["error"]);
}

#[test]
fn failed_cases_run_again_and_trials_count() {
    let project = routed(ROUTES, NOWHERE, "");
    project.run(&["test", "--trials", "2"]).exits(1);
    let project = routed(ROUTES, NOWHERE, "");
    project.run(&["test"]).exits(1);
    project.write("agents/a.md", agent("deployer", "review, it"));
    project.write("agents/b.md", agent("reviewer", "other"));
    project.run(&["test", "--failed"]).exits(0);
    assert_eq!(project.states(), ["passed"]);
}

#[test]
fn a_dry_run_estimates_no_cost_for_selections() {
    let project = routed(ROUTES, NOWHERE, "");
    let plan = json(&project.run(&["test", "--dry-run", "--json"]));
    assert_eq!(plan["estimate"]["token_usage"]["total_tokens"], 0, "{plan:#}");
}

#[test]
fn a_run_is_not_resumed_with_other_agents() {
    let project = routed(ROUTES, NOWHERE, "");
    project.run(&["test"]).exits(1);
    project.write("agents/a.md", agent("deployer", "changed"));
    let resumed = project.run(&["test", "resume", "latest"]);
    assert_eq!(resumed.code, Some(2), "{resumed:?}");
    assert!(
        resumed.stderr.contains("specialist agent: agents/a.md"),
        "{}",
        resumed.stderr
    );
}

#[test]
fn unknown_agents_are_warned_about() {
    let project = routed(
        "  - {input: a, expected_agent: reviewr}\n",
        NOWHERE,
        "    default_agent: writer\n    exclude: [depl]\n",
    );
    assert_output!(project.run(&["validate"]).exits(0));
    project.write("agents/broken.md", "---\nname: [\n---\n");
    let validated = project.run(&["validate"]).exits(0);
    assert!(
        validated.stdout.contains("cannot be used"),
        "{}",
        validated.stdout
    );
}

#[test]
fn an_expected_agent_needs_agents() {
    let project = Project::with(
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: x}\ntest_cases:\n  \
         - {input: x, expected_agent: null}\n",
    );
    let refused = project.run(&["test"]).exits(2);
    assert!(
        refused.stderr.contains("needs `routing.agents`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_new_agent_validates_clean_and_can_be_routed() {
    let tool = "tools: [{type: function, name: lookup, description: d, command: cat, parameters: {}}]\n";
    for (provider, tools, expected) in [
        ("openai, name: gpt-4o", tool, "tools: lookup\n"),
        ("openai, name: gpt-4o", "", ""),
        (
            "anthropic, name: claude-sonnet-4-5",
            "",
            "tools: Read, Grep, Glob\n",
        ),
    ] {
        let project = Project::with(&format!(
            "name: a\nmodel: {{provider: {provider}}}\ninstructions: {{inline: x}}\n{tools}\
             routing: {{commands: [run], agents: {{directories: [{{path: agents}}]}}}}\n"
        ));
        project.write("agents/README.md", "# Agents\n");
        for name in ["code-reviewer", "data_scientist", "x"] {
            project.run(&["agents", "new", name]).exits(0);
            let checked = project.run(&["agents", "validate", "--strict"]).exits(0);
            assert!(checked.stdout.contains("no problems"), "{}", checked.all());
        }
        let text = project.read("agents/code-reviewer.md");
        assert_eq!(text.contains("tools:"), !expected.is_empty(), "{text}");
        assert!(text.contains(expected), "{text}");
        let selected = project
            .run(&["agents", "select", "I need a code reviewer"])
            .exits(0);
        assert!(selected.stdout.starts_with("code-reviewer"), "{}", selected.all());
    }
}

/// Every way in which no selection takes place: that no agent fits is then not known, and never a pass.
#[test]
fn that_no_agent_fits_is_never_a_pass_without_a_selection() {
    let case = "  - {name: nothing, input: good morning, expected_agent: null}\n  \
                - {name: asked, input: good morning, expected_agent: null, ground_truth: Good}\n";
    for (from, to, reason) in [
        ("commands: [run]", "commands: [review]", "command_not_allowed"),
        ("commands: [run]", "commands: []", "command_not_allowed"),
        (
            "commands: [run]",
            "commands: [run]\n  enabled: false",
            "sdk_not_enabled",
        ),
        (
            "commands: [run]",
            "commands: [run]\n  chain: [legacy]",
            "sdk is not in `routing.chain`",
        ),
    ] {
        let server = ModelServer::answering(|_| Reply::text("Good morning!"));
        let project = routed(case, &server.url(), "");
        let yaml = project.read("agent.yaml");
        assert!(yaml.contains(from), "{yaml}");
        project.run(&["test"]).exits(0);
        project.write("agent.yaml", yaml.replacen(from, to, 1));
        let ran = project.run(&["test", "--report", "json=report.json"]);
        assert!([Some(3), Some(4)].contains(&ran.code), "{}", ran.all());
        let report: Value = serde_json::from_str(&project.read("report.json")).unwrap();
        for result in report["results"].as_array().unwrap() {
            assert_eq!(result["state"], "error", "{reason}: {result:#}");
        }
        let errors = report["results"][0]["errors"].to_string();
        assert!(errors.contains(reason), "{reason}: {report:#}");
        server.finish();
    }
    // `validate` says it before.
    let project = routed(case, "http://127.0.0.1:9/v1", "");
    let yaml = project.read("agent.yaml");
    project.write(
        "agent.yaml",
        yaml.replacen("commands: [run]", "commands: [review]", 1),
    );
    let checked = project.run(&["validate"]).exits(0);
    assert!(
        checked
            .all()
            .contains("`expected_agent` of test case `nothing` cannot be met"),
        "{}",
        checked.all()
    );
    // Nor does an evaluation count it.
    project.write("tasks.csv", "task,expected_agent\ngood morning,\n");
    let report = json(&project.run(&["agents", "eval", "tasks.csv", "--json"]).exits(0));
    assert_eq!(
        (&report["correct"], &report["abstention"]["correct"]),
        (&0.into(), &0.into()),
        "{report:#}"
    );
    assert_eq!(report["refusals"]["command_not_allowed"], 1);
}

#[test]
fn a_new_agent_makes_the_folder_that_the_agent_file_names() {
    let yaml = "name: a\nmodel: {provider: ollama, name: m}\ninstructions: {inline: x}\n\
                routing: {commands: [run], agents: {directories: [{path: team/agents}]}}\n";
    let project = Project::with(yaml);
    // A name that no agent can have, or another mistake in the file, makes nothing.
    project.run(&["agents", "new", "no name"]).exits(2);
    project.write("agent.yaml", yaml.replace("name: m}", "name: m, temprature: 1}"));
    project.run(&["agents", "new", "helper"]).exits(2);
    assert!(!project.path("team").exists());
    project.write("agent.yaml", yaml);
    project.run(&["agents", "new", "helper"]).exits(0);
    let checked = project.run(&["agents", "validate", "--strict"]).exits(0);
    assert!(checked.stdout.contains("no problems"), "{}", checked.all());
    assert!(project.path("team/agents/helper.md").exists());
}
