//! The messages of the program: waiting, suggestions, confirmations, errors of files.

use std::{os::unix::fs::PermissionsExt as _, process::Stdio};

use holodeck_testkit::{Gate, ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::{
    project::{CommandOutput, Project, TWO_CASES, agent, correct_server, half_correct_server},
    terminal::OnTerminal,
};

/// An agent whose endpoint is not called.
fn offline(cases: &str) -> String {
    agent("http://127.0.0.1:9", cases)
}

#[test]
fn a_waiting_question_names_what_it_waits_for() {
    let gate = Gate::new();
    let server = ModelServer::replies([Reply::text("Paris.").behind(&gate)]);
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["run", "The capital of France?"]);
    terminal.until("waiting for openai test-model");
    gate.open();
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    // The status line is removed before the answer.
    assert!(shown.ends_with("\r\u{1b}[2KParis.\r\n"), "{shown:?}");
    server.finish();
}

#[test]
fn flags_are_accepted_between_agent_and_question() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    for args in [
        &["run", "agent.yaml", "--json", "The capital of France?"][..],
        &["run", "--json", "agent.yaml", "The capital of France?"],
        &["run", "agent.yaml", "The capital of France?", "--json"],
        &["run", "The capital of France?", "--json"],
    ] {
        let ran = project.run(args).exits(0);
        assert_eq!(ran.json()["response"], "Paris.", "{args:?}");
    }
    project
        .run(&["run", "agent.yaml", "two", "words"])
        .exits(2)
        .says("put the question in quotes");
    server.finish();
}

#[test]
fn a_missing_variable_is_one_error() {
    let project = Project::with(
        "name: \"${NAME}\"\nmodel: {provider: \"${KIND}\", name: x}\ninstructions: {inline: Hi}\n\
         execution: {llm_timeout: \"${TIME}\"}\n",
    );
    let ran = project.run(&["validate", "--json"]).exits(2);
    let codes: Vec<_> = ran.json()["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(codes, ["HD0501"; 3], "{}", ran.stdout);
}

#[test]
fn errors_are_counted_in_the_file_that_has_them() {
    let project = Project::with(&offline(TWO_CASES));
    project.write("config.yaml", "exection: {}\n");
    let ran = project.run(&["validate"]).exits(2);
    assert!(
        ran.stdout.ends_with("\n1 error in config.yaml\n"),
        "{}",
        ran.stdout
    );
    project.write("agent.yaml", offline(TWO_CASES) + "nonsense: 1\n");
    let ran = project.run(&["validate"]).exits(2);
    assert!(
        ran.stdout
            .ends_with("\n1 error in agent.yaml\n1 error in config.yaml\n")
            || ran
                .stdout
                .ends_with("\n1 error in config.yaml\n1 error in agent.yaml\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_wrong_line_of_env_has_its_number() {
    let project = Project::with(&offline(TWO_CASES));
    project.write(".env", "# keys\nA=1\n\nexport 4f9d27 hidden\n");
    let ran = project.run(&["validate"]).exits(2);
    assert!(
        ran.stderr.contains("`.env`: line 4 is not `NAME=value`"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("4f9d27"), "{}", ran.stderr);
}

#[test]
fn parts_of_a_reason_are_separated_in_a_log() {
    let project = Project::with(&offline(TWO_CASES));
    let ran = project.run(&["test"]).exits(3);
    let line = ran.stderr.lines().find(|line| line.contains("ERROR")).unwrap();
    assert!(
        line.contains("the model endpoint did not answer · http://127.0.0.1:9/"),
        "{line}"
    );
}

#[test]
fn the_log_of_a_job_has_the_reason_of_a_failure_once() {
    let project = Project::with(&offline(TWO_CASES));
    let output = project.command(&["test"]).env("CI", "true").output().unwrap();
    let ran = CommandOutput::of(&output).exits(3);
    let line = ran.stderr.lines().find(|line| line.contains("ERROR")).unwrap();
    assert!(line.ends_with(')'), "{line}");
    assert!(
        ran.stdout.contains("the model endpoint did not answer"),
        "{}",
        ran.stdout
    );
    // Where the summary goes to a file, the log has only the line.
    let file = std::fs::File::create(project.path("summary.txt")).unwrap();
    let mut test = project.command(&["test"]);
    let output = test.env("CI", "true").stdout(file).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let line = log.lines().find(|line| line.contains("ERROR")).unwrap();
    assert!(line.contains("the model endpoint did not answer"), "{line}");
    // A file beside the agent is not the job.
    project.write(".env", "CI=true\n");
    let ran = project.run(&["test"]).exits(3);
    let line = ran.stderr.lines().find(|line| line.contains("ERROR")).unwrap();
    assert!(line.contains("the model endpoint did not answer"), "{line}");
}

#[test]
fn an_ending_without_a_format_is_refused() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["test", "-o", "report.xyz"])
        .exits(2)
        .says("no format has the extension `.xyz`")
        .says("--format json");
    assert!(server.requests().is_empty());
    project.run(&["test", "-o", "report.md"]).exits(0);
    assert!(project.read("report.md").contains("passed"));
    project
        .run(&["test", "-o", "report.xyz", "--format", "junit"])
        .exits(0);
    assert!(project.read("report.xyz").starts_with("<?xml"));
    server.finish();
}

#[test]
fn only_files_of_0_7_1_are_compared_with_it() {
    let new = "name: n\nmodel: {provider: openai, name: x}\ninstructions: {inline: Hi}\n";
    let project = Project::with(new);
    let ran = project.run(&["validate"]).exits(0);
    assert_eq!(ran.stdout, "no problems in agent.yaml\n");
    let former = [
        format!("# HoloDeck Research Agent Configuration\n{new}"),
        format!("{new}claude: {{bash: {{allow_unsafe: true}}}}\n"),
    ];
    for yaml in former {
        project.write("agent.yaml", yaml);
        project
            .run(&["validate"])
            .exits(0)
            .says("without `temperature: 0.3` and `max_tokens: 1000`");
    }
}

#[test]
fn failed_remembers_runs_before_the_newest() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["test"])
        .exits(1)
        .says("1 of 2 passed (50 %), 1 failed");
    project.run(&["test", "--filter", "capital"]).exits(0);
    let ran = project.run(&["test", "--failed"]).exits(1);
    assert!(ran.all().contains("FAIL sum"), "{}", ran.all());
    assert!(!ran.all().contains("capital"), "{}", ran.all());
    server.finish();

    // A case that has passed since is not run again.
    let server = correct_server();
    project.write("agent.yaml", agent(&server.url(), TWO_CASES));
    project.run(&["test", "--failed"]).exits(0).says("PASS sum");
    project
        .run(&["test", "--failed"])
        .exits(5)
        .says("every selected case passed last time");
    server.finish();
}

#[test]
fn a_filter_that_fits_nothing_has_a_suggestion() {
    let project = Project::with(&offline(
        "  - {name: order status, input: hi, ground_truth: x}\n  - {name: refund, input: ho, ground_truth: x}\n",
    ));
    for (filter, suggestion) in [
        ("ordr*", "`order*`"),
        ("refnd", "`refund`"),
        ("order statsu", "`order status`"),
    ] {
        project
            .run(&["test", "--filter", filter])
            .exits(5)
            .says(&format!("did you mean {suggestion}?"));
    }
    project
        .run(&["test", "--filter", "zzz"])
        .exits(5)
        .says("names are `order status`, `refund`");
}

#[test]
fn values_have_suggestions() {
    let project = Project::with(
        "name: n\nmodel: {provider: openai, name: x}\ninstructions: {inline: Hi}\n\
         execution: {llm_timeout: 60s}\n\
         tools: [{type: vectorstore, name: search docs, description: D, source: .}]\n",
    );
    project
        .run(&["validate"])
        .exits(2)
        .says("write `60`, without a unit")
        .says("write `search_docs`");
}

#[test]
fn an_earlier_run_is_the_latest_unless_named() {
    let server = half_correct_server();
    let project = Project::with("");
    for file in ["agent.yaml", "other.yaml"] {
        project.write(file, agent(&server.url(), TWO_CASES));
    }
    project.run(&["test"]).exits(1);
    project.run(&["test", "regrade"]).exits(1).says("regraded from");
    project.run(&["test", "regrade", "agent.yaml"]).exits(1);
    project.run(&["test", "regrade", "latest"]).exits(1);
    project
        .run(&["test", "resume"])
        .exits(1)
        .says("2 already finished");
    project.run(&["test", "resume", "agent.yaml"]).exits(1);
    server.finish();
}

#[test]
fn help_is_a_command() {
    let project = Project::empty();
    let by_flag = project.run(&["test", "--help"]).exits(0).stdout;
    let by_command = project.run(&["help", "test"]).exits(0).stdout;
    assert_eq!(by_command, by_flag);
    let flags = project.run(&["help", "test", "resume"]).exits(0);
    assert!(flags.stdout.contains("--accept-changes"), "{}", flags.stdout);
}

#[test]
fn a_recording_is_confirmed() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["test", "--record", "tape.jsonl"])
        .exits(0)
        .says("recorded the answers in `tape.jsonl`; `--replay tape.jsonl`");
    assert!(project.path("tape.jsonl").is_file());
    let ran = project.run(&["test"]).exits(0);
    assert!(!ran.stderr.contains("recorded"), "{}", ran.stderr);
    server.finish();
}

#[test]
fn quiet_shows_a_failure_once() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["test", "-q"]).exits(1);
    assert_eq!(ran.all().matches("It is 13.").count(), 1, "{}", ran.all());
    assert_eq!(ran.stderr, "");
    let (code, shown) = OnTerminal::start(&project, &["test", "-q"]).ends();
    assert_eq!(code, Some(1));
    assert_eq!(shown.matches("It is 13.").count(), 1, "{shown}");
    server.finish();
}

#[test]
fn the_line_that_changes_is_removed_before_each_row_and_at_the_end() {
    let second = Gate::new();
    let server = ModelServer::answering({
        let second = second.clone();
        move |request| match request.texts("user").as_slice() {
            [question] if question.contains("France") => Reply::text("Paris."),
            _ => Reply::text("It is 13.").behind(&second),
        }
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut terminal = OnTerminal::start(&project, &["test", "--color", "never"]);
    terminal.until("1 passed");
    let after_row = terminal.shown.rsplit('\n').next().unwrap().to_owned();
    second.open();
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(1), "{shown}");
    // What a terminal shows in the end: a line is cleared before it is written again.
    let lines: Vec<&str> = shown
        .lines()
        .map(|line| line.rsplit("\u{1b}[2K").next().unwrap())
        .collect();
    let spins = |text: &str| text.contains(|c| "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏".contains(c));
    assert!(spins(&after_row), "{after_row:?}");
    assert!(!lines.iter().any(|line| spins(line)), "{shown:?}");
    server.finish();
}

#[test]
fn a_slow_start_names_what_it_waits_for() {
    // A server that does not answer.
    let project = Project::with(&format!(
        "{}tools: [{{type: mcp, name: slow, description: D, command: python3, args: [./slow.py]}}]\n",
        offline(TWO_CASES)
    ));
    project.write(
        "slow.py",
        "import os, sys, time\nfor line in sys.stdin:\n    if os.path.exists('go'):\n        sys.exit(3)\n",
    );
    let mut terminal = OnTerminal::start(&project, &["test"]);
    terminal.until("waiting for tools, servers and indexes");
    terminal.types("\u{3}");
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(130), "{shown}");
}

#[test]
fn warnings_read_like_other_messages() {
    let server = correct_server();
    let project = Project::with(&format!(
        "{}tools: [{{type: mcp, name: gone, description: D, command: ./gone.sh, required: false}}]\n",
        agent(&server.url(), TWO_CASES)
    ));
    project.write("gone.sh", "#!/bin/sh\nexit 3\n");
    let mut permissions = std::fs::metadata(project.path("gone.sh")).unwrap().permissions();
    permissions.set_mode(0o755);
    std::fs::set_permissions(project.path("gone.sh"), permissions).unwrap();
    let ran = project.run(&["test"]).exits(0);
    assert!(
        ran.stderr
            .lines()
            .any(|line| line.starts_with("warning: ") && line.contains("MCP server `gone`")),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("WARN"), "{}", ran.stderr);
    server.finish();
}

#[test]
fn a_server_that_dies_shows_what_it_wrote_last() {
    let server = ModelServer::answering(|request| {
        if request.texts("tool").is_empty() {
            Reply::tool_call("c", "mcp__frail__die", &serde_json::json!({}))
        } else {
            Reply::text("Paris 12")
        }
    });
    let project = Project::with(&format!(
        "{}tools: [{{type: mcp, name: frail, description: D, command: python3, args: [./frail.py]}}]\n",
        agent(&server.url(), TWO_CASES)
    ));
    project.write("frail.py", FRAIL);
    let mut test = project.command(&["test"]);
    test.env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(Stdio::null());
    let ran = CommandOutput::of(&test.output().unwrap());
    assert_ne!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.all().contains("the pump is broken"), "{}", ran.all());
    server.finish_unchecked();
}

/// A server with one tool that ends it.
const FRAIL: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    method, result = request.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "frail", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "die", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        print("the pump is broken", file=sys.stderr, flush=True)
        sys.exit(4)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result or {}}), flush=True)
"#;
