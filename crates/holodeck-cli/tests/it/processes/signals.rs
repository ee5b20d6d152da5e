//! Signals that end a run at once.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
};

use holodeck_testkit::{Gate, ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, TWO_CASES, agent},
};

/// Starts a command that ignores no signal, even if the test itself was started with ignored signals.
fn start(project: &Project, args: &[&str]) -> Child {
    let plain = project.command(args);
    let mut command = Command::new("/usr/bin/env");
    command
        .arg("--default-signal=HUP,INT,QUIT,TERM")
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(project.dir())
        .env_clear()
        .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[tokio::test]
async fn sigterm_hangup_and_quit_cancel_running_turns_and_write_every_report() {
    for name in ["-TERM", "-HUP", "-QUIT"] {
        // The endpoint never answers.
        let gate = Gate::new();
        let closed = gate.clone();
        let server = ModelServer::answering(move |_| Reply::text("Paris.").behind(&closed));
        let project = Project::with(&agent(&server.url(), TWO_CASES));
        let child = start(&project, &["test", "--report", "junit=out.xml"]);
        server.until_open(1).await;
        signal(&child, name);
        let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(143);
        assert!(ran.stdout.contains("terminated"), "{name} {}", ran.all());
        assert!(ran.stdout.contains("2 not run"), "{name} {}", ran.all());
        assert!(
            ran.stderr.contains("holodeck test resume"),
            "{name} {}",
            ran.all()
        );
        assert!(project.read("out.xml").contains("<testsuite"), "{name}");
        assert_eq!(project.journal_grades().len(), 0, "{name}");
        assert!(project.run_file().is_object(), "{name}");
        gate.open();
        drop(server);
    }
}

#[tokio::test]
async fn a_question_that_is_terminated_ends_with_143() {
    let gate = Gate::new();
    let closed = gate.clone();
    let server = ModelServer::answering(move |_| Reply::text("Paris.").behind(&closed));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let child = start(&project, &["run", "agent.yaml", "The capital of France?"]);
    server.until_open(1).await;
    signal(&child, "-TERM");
    CommandOutput::of(&child.wait_with_output().unwrap())
        .exits(143)
        .says("terminated");
    gate.open();
    drop(server);
}

#[test]
fn an_endpoint_that_refuses_connections_ends_the_run_after_three_cases() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases = (0..200)
        .map(|n| format!("  - {{name: case{n}, input: q{n}, ground_truth: a}}\n"))
        .collect::<Vec<_>>()
        .concat();
    let project = Project::with(&agent(&format!("http://{closed}/v1"), &cases));
    project.run(&["test"]).exits(3).says("3 errors, 197 not run");

    let project = Project::with(&agent(&format!("http://{closed}/v1"), &cases));
    project.run(&["test", "-j", "8"]).exits(3);
    let asked = project.journal_grades().len();
    assert!((3..=10).contains(&asked), "{asked} cases were asked");
}
