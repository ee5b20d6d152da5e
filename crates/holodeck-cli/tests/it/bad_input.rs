//! Endpoints at their worst: the cause, the next step, the right code, and a journal that holds all that finished.

use std::time::Duration;

use holodeck_testkit::{ModelServer, Reply};
use serde_json::Value;

use crate::project::{Project, Ran, SECRET, TWO_CASES, agent, assert_seen};

/// The first question is answered; what happens to the second is the test's.
fn then(reply: Reply) -> ModelServer {
    ModelServer::answering(move |request| {
        let first = request.texts("user").iter().any(|text| text.contains("France"));
        if first {
            Reply::text("Paris.")
        } else {
            reply.clone()
        }
    })
}

struct Seen {
    ran: Ran,
    journal: Vec<Value>,
    run_file: Value,
    asked: usize,
}

fn test(server: ModelServer, args: &[&str]) -> Seen {
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.write(".env", format!("OPENAI_API_KEY={SECRET}\n"));
    let ran = project.run(&[&["test"], args].concat());
    Seen {
        ran,
        journal: project.journalled(),
        run_file: project.run_file(),
        asked: server.finish().len(),
    }
}

#[track_caller]
fn one_passed_one_error(journal: &[Value]) {
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
    let seen = test(server, &[]);
    assert_seen!(seen.ran.exits(3));
    assert_eq!(seen.asked, 1);
    assert_eq!(seen.journal.len(), 1);
}

#[test]
fn no_key_is_told_before_anything_is_asked() {
    let yaml = agent("x", TWO_CASES).replace("  endpoint: x\n", "");
    assert_seen!(Project::with(&yaml).run(&["test"]).exits(3));
}

#[test]
fn an_endpoint_that_hangs_is_given_up() {
    let seen = test(then(Reply::hang()), &["--timeout", "0.3"]);
    assert_seen!(seen.ran.exits(3));
    one_passed_one_error(&seen.journal);
}

#[test]
fn half_a_stream_is_an_error_that_keeps_its_text() {
    let seen = test(then(Reply::text("It is 12.").in_pieces(3).cut_after(3)), &[]);
    assert_seen!(seen.ran.exits(3));
    one_passed_one_error(&seen.journal);
    assert!(
        seen.run_file["report"]["results"][1]["agent_response"]
            .as_str()
            .unwrap()
            .starts_with("It")
    );
}

#[test]
fn a_web_page_is_no_answer() {
    let seen = test(then(Reply::html(200, "Sign in")), &[]);
    assert_seen!(seen.ran.exits(3));
    one_passed_one_error(&seen.journal);
}

#[test]
fn too_many_requests_for_ever() {
    let busy = Reply::openai_error(429, "slow down", Some("rate_limit"), None).retry_after(0);
    let seen = test(then(busy), &[]);
    assert_seen!(seen.ran.exits(3));
    one_passed_one_error(&seen.journal);
    assert_eq!(seen.asked, 1 + 4);
}

#[test]
fn fifty_megabytes_are_too_much() {
    let seen = test(then(Reply::flood(50 << 20)), &[]);
    assert_seen!(seen.ran.exits(3));
    one_passed_one_error(&seen.journal);
}

#[test]
fn an_answer_that_tries_to_rule_the_terminal_does_not() {
    let seen = test(then(Reply::text("\u{1b}[2J\u{1b}]0;owned\u{7}")), &[]);
    let ran = seen.ran.exits(1);
    assert!(!ran.all().contains('\u{1b}'), "{:?}", ran.all());
}

#[test]
fn a_slow_answer_that_comes_in_time_is_fine() {
    let reply = Reply::text("It is 12.").after(Duration::from_millis(50));
    test(then(reply), &["--timeout", "20"]).ran.exits(0);
}
