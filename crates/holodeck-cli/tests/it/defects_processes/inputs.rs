//! Inputs that never end, or that nothing writes.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
};

use holodeck_testkit::ModelServer;

use crate::{
    interrupt::signal,
    project::{Project, Ran, TWO_CASES, agent, knowing},
};

fn fifo(project: &Project, name: &str) {
    let made = Command::new("mkfifo").arg(project.path(name)).status().unwrap();
    assert!(made.success());
}

/// The same agent with an MCP server whose variables come from `file`.
fn with_env_file(file: &str) -> String {
    let server = "tools:\n  - {type: mcp, name: files, description: Files., transport: stdio, command: sh, \
                  args: ['-c', 'echo \"$TOKEN\" > seen; exit 1'], env_file: FILE}\n";
    format!(
        "{}{}",
        agent("http://127.0.0.1:9", TWO_CASES),
        server.replace("FILE", file)
    )
}

#[test]
fn c16_a_device_without_an_end_is_refused_wherever_an_input_is_named() {
    let project = Project::with(&agent("http://127.0.0.1:9", TWO_CASES));
    // The limits of the message are those of each input; that it comes at all shows that reading ended.
    for args in [
        &["test", "--replay", "/dev/zero"][..],
        &["test", "--prices", "/dev/zero"],
    ] {
        let ran = project.run(args).exits(2);
        assert!(ran.stderr.contains("/dev/zero"), "{}", ran.all());
        assert!(
            ran.stderr.contains("not a regular file") || ran.stderr.contains("is larger than"),
            "{}",
            ran.all()
        );
    }
    let project = Project::with(&with_env_file("/dev/zero"));
    project.run(&["test"]).exits(3).says("is larger than");
}

#[test]
fn c16_a_pipe_without_a_writer_is_given_up() {
    let project = Project::with(&agent("http://127.0.0.1:9", TWO_CASES));
    fifo(&project, "pipe");
    project
        .run(&["test", "--replay", "pipe"])
        .exits(2)
        .says("it is not a regular file");
    project
        .run(&["test", "--prices", "pipe"])
        .exits(2)
        .says("nothing wrote all of it within 5 s");
}

#[test]
fn c16_a_pipe_with_a_writer_is_an_env_file() {
    let project = Project::with(&with_env_file("./pipe"));
    fifo(&project, "pipe");
    let pipe = project.path("pipe");
    // Each time it is opened, as secret managers do; the last one is left waiting when the program has ended.
    thread::spawn(move || while fs::write(&pipe, "TOKEN=sesame-open\n").is_ok() {});
    project.run(&["test"]).exits(3);
    assert_eq!(project.read("seen"), "sesame-open\n");
}

#[tokio::test]
async fn c16_ctrl_c_is_heard_while_an_input_is_read() {
    // The price list is read after signals are listened to.
    let server: ModelServer = knowing();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    fifo(&project, "prices.json");
    let child = project
        .command(&["test"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A writer that is let in shows that the program waits for its data, which never come.
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(project.path("prices.json"))
        .unwrap();
    signal(&child, "-INT");
    Ran::of(&child.wait_with_output().unwrap()).exits(130);
    drop(writer);
    assert_eq!(server.finish().len(), 0);
}
