//! How runs end: success, errors, time-outs, signals.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use holodeck_testkit::{AnthropicReply, AnthropicServer, ClaudeFault, FakeClaude, Gate};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Bench, agent, case};

const THREE: [(&str, &str); 3] = [("one", "yes"), ("two", "yes"), ("three", "yes")];

fn yes_server() -> AnthropicServer {
    AnthropicServer::answering(|_| AnthropicReply::text("yes"))
}

fn signal(name: &str, ids: &[String]) {
    let status = Command::new("kill")
        .arg(name)
        .arg("--")
        .args(ids)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn without_credentials_it_is_3_and_nothing_is_started() {
    let bench = Bench::new(&agent("", &THREE), yes_server());
    let output = bench.command(&["test"]).env_remove("ANTHROPIC_API_KEY").output();
    let ran = bench.check_ended(&output.unwrap()).exits(3);
    assert!(ran.stderr.contains("ANTHROPIC_API_KEY"), "{}", ran.all());
    assert_eq!(bench.pids().len(), 0);
    assert!(bench.server.finish().is_empty());
}

#[test]
fn without_a_cli_or_with_an_old_one_it_is_3() {
    let bench = Bench::new(&agent("", &THREE), yes_server());
    let output = bench
        .command(&["test"])
        .env("HOLODECK_CLAUDE_CLI", "/nowhere/claude")
        .output();
    bench
        .check_ended(&output.unwrap())
        .exits(3)
        .says("/nowhere/claude");

    let old = FakeClaude::new(&ClaudeFault::Version("2.1.100".to_owned()));
    let output = bench
        .command(&["test"])
        .env("HOLODECK_CLAUDE_CLI", old.path())
        .output();
    bench
        .check_ended(&output.unwrap())
        .exits(3)
        .says("2.1.100")
        .says("2.1.113");
    assert_eq!(old.starts(), 0);

    let locked = FakeClaude::new(&ClaudeFault::NotExecutable);
    let output = bench
        .command(&["test"])
        .env("HOLODECK_CLAUDE_CLI", locked.path())
        .output();
    let path = locked.path();
    bench
        .check_ended(&output.unwrap())
        .exits(3)
        .says(path.to_str().unwrap());
    assert!(bench.server.finish().is_empty());
}

#[test]
fn a_private_folder_that_cannot_be_created_is_3_and_named() {
    let bench = Bench::new(&agent("", &THREE), yes_server());
    let output = bench.command(&["test"]).env("TMPDIR", "/nowhere/at/all").output();
    bench
        .check_ended(&output.unwrap())
        .exits(3)
        .says("can't prepare a private folder")
        .says("/nowhere/at/all");
    assert!(bench.server.finish().is_empty());
}

#[test]
fn a_crash_in_one_case_is_3_and_the_others_finish() {
    // The endpoint reads the ids of the CLI's processes.
    let pids = tempfile::NamedTempFile::new().unwrap();
    let path = pids.path().to_owned();
    let server = AnthropicServer::answering(move |request| {
        if case(request) == "two" {
            let pids = fs::read_to_string(&path).unwrap();
            signal("-9", &pids.lines().map(str::to_owned).collect::<Vec<_>>());
            return AnthropicReply::hang();
        }
        AnthropicReply::text("yes")
    });
    let bench = Bench::new(&agent("", &THREE), server);
    std::os::unix::fs::symlink(pids.path(), bench.records().join("pids")).unwrap();
    let ran = bench
        .run(&["test"])
        .exits(3)
        .says("2 of 3 passed (67 %), 1 error");
    assert!(
        ran.stdout
            .contains("subprocess terminated unexpectedly: killed by SIGKILL"),
        "{}",
        ran.all()
    );
    let grades = bench.project.journal_grades();
    let states: Vec<_> = grades.iter().map(|case| case["state"].clone()).collect();
    assert_eq!(states, [json!("passed"), json!("error"), json!("passed")]);
    let _ = bench.server.finish_unchecked();
}

#[test]
fn a_server_that_does_not_start_is_3_and_named_unless_optional() {
    let tool = "tools:\n  - {type: mcp, name: shelves, description: none, command: /bin/false}";
    let bench = Bench::new(&agent(tool, &THREE), yes_server());
    bench
        .run(&["test"])
        .exits(3)
        .says("`shelves`")
        .says("required: false");
    assert!(bench.server.requests().is_empty());
    let optional = tool.replace("/bin/false", "/bin/false, required: false");
    bench.project.write("agent.yaml", agent(&optional, &THREE));
    bench
        .run(&["test"])
        .exits(0)
        .says("`shelves`")
        .says("continuing without it");
    bench.server.finish();
}

#[test]
fn an_agent_that_never_ends_is_1() {
    let server =
        AnthropicServer::answering(|_| AnthropicReply::tool_use("Glob", &json!({"pattern": "*.nothing"})));
    let more = "claude: {max_turns: 2, file_system: {read: true}}";
    let bench = Bench::new(&agent(more, &THREE[..1]), server);
    bench.run(&["test"]).exits(1).says("max_turns limit reached");
    bench.server.finish();
}

#[test]
fn refused_credentials_stop_the_run_at_once() {
    let server = AnthropicServer::answering(|_| AnthropicReply::error(401, "invalid x-api-key"));
    let bench = Bench::new(&agent("", &THREE), server);
    bench.run(&["test"]).exits(3).says("401").says("2 not run");
    assert_eq!(bench.server.finish().len(), 1);
    assert_eq!(bench.project.journal_grades().len(), 1);
}

#[test]
fn a_silent_endpoint_ends_with_the_time_out() {
    let server = AnthropicServer::answering(|_| AnthropicReply::hang());
    let bench = Bench::new(&agent("", &THREE[..2]), server);
    bench
        .run(&["test", "--timeout", "1"])
        .exits(3)
        .says("timeout exceeded")
        .says("2 errors");
    assert_eq!(bench.project.journal_grades().len(), 2);
    let _ = bench.server.finish_unchecked();
}

/// A run whose second case does not end before the gate is open.
fn stuck(gate: &Gate) -> Bench {
    let gate = gate.clone();
    let server = AnthropicServer::answering(move |request| {
        let yes = AnthropicReply::text("yes");
        if case(request) == "two" {
            yes.behind(&gate)
        } else {
            yes
        }
    });
    Bench::new(&agent("", &THREE), server)
}

fn start(bench: &Bench) -> Child {
    let mut command = bench.command(&["test"]);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn ctrl_c_leaves_no_process_and_keeps_what_was_finished() {
    let gate = Gate::new();
    let bench = stuck(&gate);
    let mut child = start(&bench);
    bench.server.until_asked(2).await;
    let holodeck = [child.id().to_string()];
    signal("-INT", &holodeck);
    let stderr = child.stderr.as_mut().unwrap();
    let mut output = Vec::new();
    while !String::from_utf8_lossy(&output).contains("press Ctrl-C again") {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        output.extend(byte);
    }
    signal("-INT", &holodeck);
    let output = child.wait_with_output().unwrap();
    bench
        .check_ended(&output)
        .exits(130)
        .says("1 of 3 passed, 2 not run");
    assert_eq!(bench.project.journal_grades().len(), 1);
    gate.open();
    bench.run(&["test", "resume", "latest"]).exits(0).says("3 passed");
    let asked: Vec<_> = bench.server.requests().iter().map(case).collect();
    assert_eq!(asked, ["one", "two", "two", "three"]);
    bench.server.finish();
}

#[tokio::test]
async fn a_killed_run_leaves_no_process_and_the_next_run_cleans_up() {
    let gate = Gate::new();
    let bench = stuck(&gate);
    let mut child = start(&bench);
    bench.server.until_asked(2).await;
    signal("-9", &[child.id().to_string()]);
    child.wait().unwrap();
    // The CLI notices that its client has ended once the pending answer arrives.
    gate.open();
    bench.wait_for_processes();
    let left = bench.private_folders();
    assert!(!left.is_empty(), "nothing was left to clean up");
    for folder in left {
        let before = SystemTime::now() - Duration::from_mins(5);
        fs::File::open(folder).unwrap().set_modified(before).unwrap();
    }
    bench.run(&["test", "resume", "latest"]).exits(0).says("3 passed");
    bench.server.finish();
}

#[test]
fn an_answer_is_shown_while_it_is_written() {
    let gate = Gate::new();
    let reply = AnthropicReply::text("Once upon a time\nthere was an end.")
        .in_pieces(8)
        .gated_after(7, &gate);
    let server = AnthropicServer::answering(move |_| reply.clone());
    let bench = Bench::new(&agent("", &THREE), server);
    let mut command = bench.command(&["run", "A story."]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "Once upon a time\n");
    gate.open();
    stdout.read_to_string(&mut line).unwrap();
    assert_eq!(line, "Once upon a time\nthere was an end.\n");
    let output = child.wait_with_output().unwrap();
    bench.check_ended(&output).exits(0);
    bench.server.finish();
}

/// A model that runs this in the shell.
fn shell(command: &str) -> AnthropicServer {
    let command = command.to_owned();
    AnthropicServer::answering(move |request| match request.tool_results().first() {
        Some(_) => AnthropicReply::text("yes"),
        None => AnthropicReply::tool_use("Bash", &json!({"command": command, "description": "Waits."})),
    })
}

/// Whether a program with these arguments is running.
fn is_running(arguments: &[&str]) -> bool {
    let command_line: Vec<u8> = arguments
        .iter()
        .flat_map(|part| [part.as_bytes(), &[0]].concat())
        .collect();
    let processes = fs::read_dir("/proc").unwrap();
    let mut lines = processes.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.any(|line| line.ends_with(&command_line))
}

const SHELL: &str = "claude: {bash: {enabled: true}}";

#[test]
fn what_a_tool_runs_ends_with_the_time_out() {
    let bench = Bench::new(&agent(SHELL, &THREE[..1]), shell("sleep 54321"));
    let child = bench
        .command(&["test", "--allow-side-effects", "--timeout", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until(|| is_running(&["sleep", "54321"]));
    let output = child.wait_with_output().unwrap();
    bench.check_ended(&output).exits(3).says("timeout exceeded");
    until(|| !is_running(&["sleep", "54321"]));
    let _ = bench.server.finish_unchecked();
}

#[tokio::test]
async fn a_killed_run_leaves_no_process_that_waits_for_an_answer_or_a_tool() {
    let silent = AnthropicServer::answering(|_| AnthropicReply::hang());
    for server in [silent, shell("sleep 54322")] {
        let bench = Bench::new(&agent(SHELL, &THREE), server);
        let mut command = bench.command(&["test", "--allow-side-effects"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        bench.server.until_asked(1).await;
        if bench.server.open() == 0 {
            until(|| is_running(&["sleep", "54322"]));
        }
        signal("-9", &[child.id().to_string()]);
        child.wait().unwrap();
        bench.wait_for_processes();
        until(|| !is_running(&["sleep", "54322"]));
        let _ = bench.server.finish_unchecked();
    }
}

/// Waits until the condition holds.
#[track_caller]
fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out");
        std::thread::yield_now();
    }
}
