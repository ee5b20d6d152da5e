//! Endpoints that misbehave: the cause, the next step, the exit code, and a journal with all finished cases.

use std::time::Duration;

use holodeck_testkit::{ModelServer, Reply};
use serde_json::Value;

use crate::project::{CommandOutput, Project, SECRET, TWO_CASES, agent, assert_output};

/// Answers the first question, and the second with `reply`.
fn second_reply(reply: Reply) -> ModelServer {
    ModelServer::answering(move |request| {
        let first = request.texts("user").iter().any(|text| text.contains("France"));
        if first {
            Reply::text("Paris.")
        } else {
            reply.clone()
        }
    })
}

struct Outcome {
    output: CommandOutput,
    journal: Vec<Value>,
    run_file: Value,
    requests: usize,
}

fn test(server: ModelServer, args: &[&str]) -> Outcome {
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.write(".env", format!("OPENAI_API_KEY={SECRET}\n"));
    let output = project.run(&[&["test"], args].concat());
    Outcome {
        output,
        journal: project.journal_grades(),
        run_file: project.run_file(),
        requests: server.finish().len(),
    }
}

#[track_caller]
fn assert_one_passed_one_error(journal: &[Value]) {
    let states: Vec<_> = journal
        .iter()
        .map(|case| case["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["passed", "error"]);
}

#[test]
fn a_wrong_key_stops_at_once() {
    let reply = Reply::openai_error(
        401,
        &format!("Incorrect API key: {SECRET}"),
        Some("invalid_api_key"),
        None,
    );
    let server = ModelServer::answering(move |_| reply.clone());
    let outcome = test(server, &[]);
    assert_output!(outcome.output.exits(3));
    assert_eq!(outcome.requests, 1);
    assert_eq!(outcome.journal.len(), 1);
}

#[test]
fn no_key_is_told_before_anything_is_asked() {
    let yaml = agent("x", TWO_CASES).replace("  endpoint: x\n", "");
    assert_output!(Project::with(&yaml).run(&["test"]).exits(3));
}

#[test]
fn a_missing_key_has_one_text_wherever_it_is_reported() {
    for (provider, variable) in [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")] {
        let yaml = agent("x", TWO_CASES)
            .replace("  endpoint: x\n", "")
            .replace("provider: openai", &format!("provider: {provider}"));
        let project = Project::with(&yaml);
        for command in [&["test"][..], &["run", "Hi"], &["doctor", "--json"]] {
            let ran = project.run(command);
            let all = ran.all();
            assert!(all.contains(&format!("`{variable}` is not set")), "{all}");
            let hint = format!("put `{variable}=…` into `.env` beside the agent file, or export it");
            assert!(all.contains(&hint), "{all}");
            assert!(!all.contains("api_key"), "{all}");
            if command[0] != "doctor" {
                assert!(all.contains("(agent.yaml:3:13)"), "{all}");
            }
        }
    }
}

#[test]
fn an_endpoint_that_hangs_is_given_up() {
    let outcome = test(second_reply(Reply::hang()), &["--timeout", "0.3"]);
    assert_output!(outcome.output.exits(3));
    assert_one_passed_one_error(&outcome.journal);
}

#[test]
fn half_a_stream_is_an_error_that_keeps_its_text() {
    let outcome = test(
        second_reply(Reply::text("It is 12.").in_pieces(3).cut_after(3)),
        &[],
    );
    assert_output!(outcome.output.exits(3));
    assert_one_passed_one_error(&outcome.journal);
    assert!(
        outcome.run_file["report"]["results"][1]["agent_response"]
            .as_str()
            .unwrap()
            .starts_with("It")
    );
}

#[test]
fn a_web_page_is_no_answer() {
    let outcome = test(second_reply(Reply::html(200, "Sign in")), &[]);
    assert_output!(outcome.output.exits(3));
    assert_one_passed_one_error(&outcome.journal);
}

#[test]
fn too_many_requests_for_ever() {
    let busy = Reply::openai_error(429, "slow down", Some("rate_limit"), None).retry_after(0);
    let outcome = test(second_reply(busy), &[]);
    assert_output!(outcome.output.exits(3));
    assert_one_passed_one_error(&outcome.journal);
    assert_eq!(outcome.requests, 1 + 4);
}

#[test]
fn fifty_megabytes_are_too_much() {
    let outcome = test(second_reply(Reply::flood(50 << 20)), &[]);
    assert_output!(outcome.output.exits(3));
    assert_one_passed_one_error(&outcome.journal);
}

#[test]
fn an_answer_cannot_control_the_terminal() {
    let outcome = test(second_reply(Reply::text("\u{1b}[2J\u{1b}]0;owned\u{7}")), &[]);
    let output = outcome.output.exits(1);
    assert!(!output.all().contains('\u{1b}'), "{:?}", output.all());
}

#[test]
fn a_slow_answer_that_comes_in_time_is_fine() {
    let reply = Reply::text("It is 12.").after(Duration::from_millis(50));
    test(second_reply(reply), &["--timeout", "20"]).output.exits(0);
}
