//! Tests of Ctrl-C during a run. The signals that end a run at once are tested in `processes`.

use std::process::{Child, Command, Stdio};

use holodeck_testkit::{Gate, ModelServer, Reply};

use crate::project::{CommandOutput, Project, TWO_CASES, agent};

pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

fn start(project: &Project) -> Child {
    project
        .command(&["test"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads stderr until it contains `what`, which shows that the signal was received.
fn until(child: &mut Child, what: &str) -> String {
    use std::io::Read as _;
    let stderr = child.stderr.as_mut().unwrap();
    let mut output = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&output).contains(what) {
        assert_eq!(
            stderr.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&output)
        );
        output.push(byte[0]);
    }
    String::from_utf8(output).unwrap()
}

#[tokio::test]
async fn the_first_interrupt_lets_running_cases_finish() {
    let gate = Gate::new();
    let reply = Reply::text("Paris.").behind(&gate);
    let server = ModelServer::answering(move |_| reply.clone());
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut child = start(&project);
    server.until_open(1).await;
    signal(&child, "-INT");
    until(&mut child, "press Ctrl-C again");
    gate.open();
    let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(130);
    assert!(ran.stdout.contains("1 of 2 passed, 1 not run"), "{}", ran.all());
    assert!(ran.stderr.contains("holodeck test resume"), "{}", ran.all());
    assert_eq!(project.journal_grades().len(), 1);
    assert_eq!(server.finish().len(), 1);
}

#[tokio::test]
async fn the_second_interrupt_stops_running_cases_and_the_run_can_be_resumed() {
    let gate = Gate::new();
    let closed = gate.clone();
    let server = ModelServer::answering(move |request| {
        let right = if request.texts("user")[0].contains("France") {
            "Paris."
        } else {
            "12"
        };
        Reply::text(right).behind(&closed)
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut child = start(&project);
    server.until_open(1).await;
    signal(&child, "-INT");
    until(&mut child, "press Ctrl-C again");
    signal(&child, "-INT");
    let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(130);
    assert!(ran.stdout.contains("2 not run"), "{}", ran.all());
    assert_eq!(project.journal_grades().len(), 0);
    gate.open();
    project
        .run(&["test", "resume", "latest"])
        .exits(0)
        .says("2 passed");
    server.finish();
}

#[tokio::test]
async fn a_second_run_is_refused_and_names_the_first() {
    let gate = Gate::new();
    let reply = Reply::text("Paris. 12").behind(&gate);
    let server = ModelServer::answering(move |_| reply.clone());
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let first = start(&project);
    server.until_open(1).await;
    let second = project.run(&["test"]).exits(3);
    assert!(
        second.stderr.contains(&format!("(process {},", first.id())),
        "{}",
        second.all()
    );
    gate.open();
    CommandOutput::of(&first.wait_with_output().unwrap()).exits(0);
    assert_eq!(server.finish().len(), 2);
}
