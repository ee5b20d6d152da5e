//! Inputs without an end or without a writer.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use holodeck_testkit::ModelServer;

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, TWO_CASES, agent, correct_server},
};

fn fifo(project: &Project, name: &str) {
    let status = Command::new("mkfifo").arg(project.path(name)).status().unwrap();
    assert!(status.success());
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
fn a_device_without_an_end_is_refused_wherever_an_input_is_named() {
    let project = Project::with(&agent("http://127.0.0.1:9", TWO_CASES));
    // Each input has its own limit; the message shows that reading has ended.
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
fn a_pipe_without_a_writer_is_given_up() {
    let project = Project::with(&agent("http://127.0.0.1:9", TWO_CASES));
    fifo(&project, "pipe");
    project
        .run(&["test", "--replay", "pipe"])
        .exits(2)
        .says("it is not a regular file");
    project
        .run(&["test", "--prices", "pipe"])
        .exits(2)
        .says("reading it took more than 5 s");
}

#[test]
fn a_pipe_with_a_writer_is_an_env_file() {
    let project = Project::with(&with_env_file("./pipe"));
    fifo(&project, "pipe");
    let pipe = project.path("pipe");
    // Serves every reader, as secret managers do. A reader that closes early ends only its own write;
    // the pause lets a reader see the end of the pipe. After the program has ended, opening blocks.
    thread::spawn(move || {
        while let Ok(mut writer) = fs::OpenOptions::new().write(true).open(&pipe) {
            let _ = writer.write_all(b"TOKEN=sesame-open\n");
            drop(writer);
            thread::sleep(Duration::from_millis(20));
        }
    });
    project.run(&["test"]).exits(3);
    assert_eq!(project.read("seen"), "sesame-open\n");
}

#[tokio::test]
async fn ctrl_c_works_while_an_input_is_read() {
    // The price list is read after the signal handlers are installed.
    let server: ModelServer = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    fifo(&project, "prices.json");
    let child = project
        .command(&["test"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe can be opened for writing only once the program waits for data, which never arrives.
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(project.path("prices.json"))
        .unwrap();
    signal(&child, "-INT");
    CommandOutput::of(&child.wait_with_output().unwrap()).exits(130);
    drop(writer);
    assert_eq!(server.finish().len(), 0);
}
