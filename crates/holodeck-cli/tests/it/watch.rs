//! Tests of `holodeck test --watch`: what runs again after which change, and how it ends.

use std::{
    io::{PipeReader, Read as _},
    process::{Child, Stdio},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;

use crate::{
    interrupt::signal,
    project::{Project, TWO_CASES, agent, half_correct_server},
};

/// A command that watches, and all that it writes.
struct Watching {
    child: Child,
    output: PipeReader,
}

impl Watching {
    fn start(project: &Project, args: &[&str]) -> Self {
        // Both outputs in one pipe, so that they are read in their order.
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = project.command(&[&["test", "--watch"], args].concat());
        let child = command
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        drop(command);
        Self {
            child,
            output: reader,
        }
    }

    /// Reads until the command waits for a change; returns what it wrote since the last time.
    fn until_it_waits(&mut self) -> String {
        self.until("; Ctrl-C ends\n")
    }

    fn until(&mut self, what: &str) -> String {
        let mut read = Vec::new();
        let mut byte = [0];
        while !read.ends_with(what.as_bytes()) {
            let text = || String::from_utf8_lossy(&read).into_owned();
            assert_eq!(
                self.output.read(&mut byte).unwrap(),
                1,
                "no {what:?} in {}",
                text()
            );
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    fn end(mut self, name: &str) -> Option<i32> {
        signal(&self.child, name);
        self.child.wait().unwrap().code()
    }
}

fn questions(requests: &[ReceivedRequest]) -> Vec<String> {
    let last = requests.iter().map(|request| request.texts("user").pop());
    last.map(|question| question.unwrap().to_owned()).collect()
}

#[test]
fn only_what_a_change_concerns_runs_again_and_an_expectation_asks_nothing() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut watching = Watching::start(&project, &[]);
    let first = watching.until_it_waits();
    assert!(first.contains("1 of 2 passed"), "{first}");
    assert!(first.contains("watching 1 file"), "{first}");
    assert_eq!(questions(&server.requests()).len(), 2);

    // Another expectation: the stored answer is graded again.
    let yaml = project.read("agent.yaml");
    project.write("agent.yaml", yaml.replace("\"12\"", "\"13\""));
    let graded = watching.until_it_waits();
    assert!(graded.contains("changed: agent.yaml"), "{graded}");
    assert!(
        graded.contains("2 of 2 passed") || graded.contains("2 passed"),
        "{graded}"
    );
    assert_eq!(questions(&server.requests()).len(), 2, "{graded}");

    // Another question: its case alone is asked.
    let yaml = project.read("agent.yaml");
    project.write(
        "agent.yaml",
        yaml.replace("The capital of France?", "And the capital of France?"),
    );
    let asked = watching.until_it_waits();
    assert!(asked.contains("1 passed") || asked.contains("1 of 1"), "{asked}");
    assert_eq!(questions(&server.requests())[2..], ["And the capital of France?"]);

    // Nothing that decides.
    let yaml = project.read("agent.yaml");
    project.write("agent.yaml", format!("# a remark\n{yaml}"));
    let nothing = watching.until_it_waits();
    assert!(nothing.contains("no case depends on what changed"), "{nothing}");

    // The agent itself: every case.
    let yaml = project.read("agent.yaml");
    project.write("agent.yaml", yaml.replace("Answer briefly", "Answer at length"));
    watching.until_it_waits();
    assert_eq!(questions(&server.requests()).len(), 5);
    assert_eq!(watching.end("-INT"), Some(0));
}

#[test]
fn a_broken_file_is_shown_with_its_place_and_a_new_file_is_watched() {
    let server = half_correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let project = Project::with(&yaml);
    let mut watching = Watching::start(&project, &[]);
    watching.until_it_waits();
    project.write("agent.yaml", yaml.replace("temperature: 0.3", "tempertaure: 0.3"));
    let broken = watching.until_it_waits();
    assert!(broken.contains("agent.yaml:6:3"), "{broken}");
    assert!(broken.contains("did you mean `temperature`?"), "{broken}");
    project.write("prompts/new.md", "Answer briefly, please.");
    let with_file = yaml.replace("  inline: Answer briefly.\n", "  file: prompts/new.md\n");
    project.write("agent.yaml", &with_file);
    let again = watching.until_it_waits();
    assert!(again.contains("watching 2 files"), "{again}");
    assert_eq!(server.requests().len(), 4);
    project.write("prompts/new.md", "Answer briefly, as always.");
    let again = watching.until_it_waits();
    assert!(again.contains("changed: prompts/new.md"), "{again}");
    assert_eq!(server.requests().len(), 6);
    // The code of the last run, in which a case failed.
    assert_eq!(watching.end("-INT"), Some(1));
}

#[test]
fn a_case_that_failed_before_is_not_hidden_by_one_that_passes() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut watching = Watching::start(&project, &[]);
    watching.until_it_waits();
    let yaml = project.read("agent.yaml");
    project.write(
        "agent.yaml",
        yaml.replace("The capital of France?", "Tell me the capital of France?"),
    );
    let again = watching.until_it_waits();
    assert!(
        again.contains("1 other case did not pass in an earlier run"),
        "{again}"
    );
    assert_eq!(watching.end("-INT"), Some(1));
}

#[test]
fn a_signal_during_a_run_and_one_to_end_have_their_codes() {
    let gate = holodeck_testkit::Gate::new();
    let reply = Reply::text("Paris. 12").behind(&gate);
    let server = ModelServer::answering(move |_| reply.clone());
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut watching = Watching::start(&project, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(server.until_open(1));
    signal(&watching.child, "-INT");
    watching.until("press Ctrl-C again to stop now\n");
    gate.open();
    assert_eq!(watching.child.wait().unwrap().code(), Some(130));
    let mut watching = Watching::start(&project, &["--failed"]);
    watching.until_it_waits();
    assert_eq!(watching.end("-TERM"), Some(143));
}

#[test]
fn what_cannot_be_watched_is_refused_at_once() {
    let project = Project::empty();
    project.run(&["test", "--watch"]).exits(2).says("agent.yaml");
    let matrix = "matrix:\n  model.name: [good, bad]\n";
    project.write(
        "agent.yaml",
        format!("{}{matrix}", agent("http://127.0.0.1:1", TWO_CASES)),
    );
    project
        .run(&["test", "--watch", "--dry-run"])
        .exits(2)
        .says("cannot be used with");
}
