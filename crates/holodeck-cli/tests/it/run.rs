//! Tests of single questions with `holodeck run`: data on stdout, input from a pipe, and exit codes.

use std::{io::Write as _, process::Stdio};

use holodeck_testkit::{ModelServer, Reply};

use crate::project::{CommandOutput, Project, TWO_CASES, agent, assert_output, correct_server};

#[test]
fn the_answer_and_nothing_else_is_data() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project
        .run(&["run", "agent.yaml", "The capital of France?"])
        .exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("Paris.\n", ""));
    let ran = project.run(&["run", "The capital of France?"]).exits(0);
    assert_eq!(ran.stdout, "Paris.\n");
    let ran = project.run(&["run", "-v", "7 + 5?"]).exits(0);
    assert_eq!(ran.stdout, "It is 12.\n");
    assert!(ran.stderr.contains("1 model call"), "{}", ran.stderr);
    server.finish();
}

#[test]
fn an_agent_file_without_a_question_asks_nothing() {
    let server = ModelServer::answering(|_| panic!("nothing is asked"));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.write("sub/agent.yaml", "name: a\n");
    project.write("notes.txt", "a file");
    for argument in ["agent.yaml", "absent.yml", "sub", "notes.txt"] {
        let ran = project
            .run(&["run", argument])
            .exits(2)
            .says("the question is missing");
        assert_eq!(ran.stdout, "");
        ran.says(&format!("`holodeck run {argument} \"…\"`"));
    }
    server.finish();
}

#[test]
fn a_question_may_name_an_agent_file() {
    let server = ModelServer::answering(|_| Reply::text("A file."));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["run", "Explain agent.yaml"])
        .exits(0)
        .says("A file.");
    server.finish();
}

#[test]
fn a_program_gets_an_object_when_the_time_is_over() {
    let server = ModelServer::answering(|_| Reply::hang());
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project
        .run(&["run", "--json", "--timeout", "0.3", "a story"])
        .exits(3);
    assert_eq!(ran.json()["is_error"], true);
    assert!(ran.json()["error_reason"].as_str().unwrap().contains("timeout"));
    drop(server.finish_unchecked());
}

#[test]
fn the_whole_result_for_a_program() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let result = project
        .run(&["run", "--json", "The capital of France?"])
        .exits(0)
        .json();
    assert_eq!(result["response"], "Paris.");
    assert_eq!(result["is_error"], false);
    server.finish();
}

#[test]
fn a_question_from_a_pipe() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let mut child = project
        .command(&["run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"The capital of France?\n")
        .unwrap();
    let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(0);
    assert_eq!(ran.stdout, "Paris.\n");
    project.run(&["run", "-"]).exits(2).says("the question is empty");
    server.finish();
}

#[test]
fn an_agent_that_ends_badly_is_1() {
    let server = ModelServer::replies([Reply::refusal("I would rather not")]);
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["run", "hm?"]).exits(1);
    assert_output!(ran);
    server.finish();
}

#[test]
fn an_endpoint_that_is_down_is_3() {
    let server = correct_server();
    let down = server.url();
    drop(server.finish());
    let ran = Project::with(&agent(&down, TWO_CASES))
        .run(&["run", "hm?"])
        .exits(3);
    assert_output!(ran);
}

#[test]
fn an_answer_that_takes_too_long_is_3_and_what_came_is_shown() {
    let server = ModelServer::replies([Reply::text("Once upon a time").in_pieces(4).hang_after(3)]);
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["run", "--timeout", "0.3", "a story"]).exits(3);
    assert_output!(ran);
    server.finish();
}

#[test]
fn a_budget_for_a_model_without_a_price_is_2_for_run_and_test() {
    let server = ModelServer::replies([Reply::text("Paris.")]);
    let yaml = crate::project::agent(&server.url(), TWO_CASES) + "openai: {max_budget_usd: 1}\n";
    let project = Project::with(&yaml);
    for args in [&["run", "Hi"][..], &["test"]] {
        project
            .run(args)
            .exits(2)
            .says("cannot enforce `openai.max_budget_usd`: no price known for `test-model`");
    }
    assert!(server.requests().is_empty());
    project.write(
        "prices.json",
        r#"{"as_of": "2026-11-21", "models": {"test-model": {"input": 1, "output": 2}}}"#,
    );
    project.run(&["run", "Hi"]).exits(0);
    server.finish();
}
