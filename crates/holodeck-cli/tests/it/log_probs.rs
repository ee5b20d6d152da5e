//! Scores that are weighted by the judge's log-probabilities, from the YAML to the reports.

use std::sync::{Arc, Mutex};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::Project;

const METRIC: &str =
    "    - {type: geval, name: Correct, criteria: Is it right?, evaluation_steps: [Look.]}\n";

/// An agent with one case that is judged at `judge` by `metrics`.
fn project(agent: &ModelServer, judge: &ModelServer, metrics: &str, cases: &str) -> Project {
    Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{}\"}}\n\
         instructions: {{inline: Be brief.}}\n\
         evaluations:\n  model: {{provider: openai, name: judging-model, endpoint: \"{}\"}}\n  metrics:\n{metrics}\
         test_cases:\n{cases}",
        agent.url(),
        judge.url()
    ))
}

const ONE_CASE: &str = "  - {name: refunds, input: How long do refunds take?}\n";

fn agent() -> ModelServer {
    ModelServer::answering(|_| Reply::text("It takes 30 days."))
}

/// A score of 8 with these alternatives.
fn score(alternatives: &[(&str, f64)]) -> Reply {
    Reply::nothing().and_tokens([
        ("{\"reason\": \"it", &[][..]),
        (" is\",", &[]),
        (" \"score\":", &[]),
        (" ", &[]),
        ("8", alternatives),
        ("}", &[]),
    ])
}

/// Score and evidence of the only metric.
fn judged(project: &Project) -> (Option<f64>, Value) {
    let metric = project.run_file()["report"]["results"][0]["metric_results"][0].clone();
    (metric["score"].as_f64(), metric["details"].clone())
}

fn asks(request: &ReceivedRequest) -> bool {
    request.body.get("logprobs").is_some() || request.body.get("top_logprobs").is_some()
}

#[test]
fn a_score_is_weighted_in_the_run_in_its_replay_and_in_a_regrade() {
    let agent = agent();
    let judge = ModelServer::answering(|_| {
        score(&[
            ("8", 0.55),
            (" 5", 0.3),
            ("10", 0.02),
            ("42", 0.1),
            ("eight", 0.03),
        ])
    });
    let project = project(&agent, &judge, METRIC, ONE_CASE);
    project.run(&["test", "--record", "run.jsonl"]).exits(0);
    let (value, evidence) = judged(&project);
    let mean = (8.0 * 0.55 + 5.0 * 0.3 + 10.0 * 0.02) / 0.87;
    assert!((value.unwrap() - mean / 10.0).abs() < 1e-9, "{value:?}");
    assert!((evidence["weighted"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert_eq!(evidence["raw"], 8.0);
    project.run(&["test", "regrade"]).exits(0);
    assert_eq!(judged(&project), (value, evidence.clone()));
    drop((agent, judge));
    project.run(&["test", "--replay", "run.jsonl"]).exits(0);
    assert_eq!(judged(&project), (value, evidence));
}

#[test]
fn only_the_question_for_the_score_asks_and_an_endpoint_that_refuses_still_judges() {
    let (agent, metrics) = (agent(), [
        "    - {type: geval, name: Correct, criteria: Is it right?}\n",
        "    - {type: geval, name: Strict, criteria: Is it right?, evaluation_steps: [s], strict_mode: true}\n",
        "    - {type: standard, metric: fluency}\n",
    ].concat());
    let judge = ModelServer::answering(|request| {
        if asks(request) {
            return Reply::openai_error(400, "logprobs is not supported", None, None);
        }
        let form = &request.body["response_format"]["json_schema"];
        if form["name"] == "items" {
            return Reply::text("{\"items\": [\"Look.\"]}");
        }
        let scores = form["schema"]["properties"]["score"]["enum"].as_array().unwrap();
        Reply::text(json!({"reason": "r", "score": scores.last()}).to_string())
    });
    let cases = "  - {input: q1}\n  - {input: q2}\n";
    let project = project(&agent, &judge, &metrics, cases);
    project.run(&["test", "--record", "run.jsonl"]).exits(0);
    let recorded = project.run_file()["report"]["results"].clone();
    let (value, evidence) = judged(&project);
    assert_eq!((value, evidence.get("weighted")), (Some(1.0), None));
    let asked = judge.finish();
    let with_log_probs = asked.iter().filter(|request| asks(request));
    for request in with_log_probs.clone() {
        let scores = &request.body["response_format"]["json_schema"]["schema"]["properties"]["score"]["enum"];
        assert_eq!(scores.as_array().map(Vec::len), Some(11), "only `Correct` asks");
    }
    assert!((1..=2).contains(&with_log_probs.count()));
    drop(agent);
    project.run(&["test", "--replay", "run.jsonl"]).exits(0);
    let scores = |results: &Value| {
        let metrics = results
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|case| case["metric_results"].as_array().unwrap());
        metrics.map(|metric| metric["score"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        scores(&project.run_file()["report"]["results"]),
        scores(&recorded)
    );
}

#[test]
fn log_probabilities_never_change_what_the_judge_did_not_answer() {
    for (reply, expected) in [
        // The model writes digit by digit, so `1` may have become 10.
        (score(&[("8", 0.6), ("1", 0.4)]), Some(0.8)),
        // No alternative is a whole number, or there is none.
        (score(&[("eight", 0.5), ("8.5", 0.25)]), Some(0.8)),
        (score(&[]), Some(0.8)),
        // The answer is not usable: its log-probabilities do not make it so.
        (
            Reply::nothing().and_tokens([("{\"score\":", &[][..]), ("8", &[("8", 0.6), ("7", 0.4)])]),
            None,
        ),
        (
            Reply::nothing().and_tokens([
                ("{\"score\":", &[][..]),
                ("12", &[("8", 0.6), ("7", 0.4)]),
                ("}", &[]),
            ]),
            None,
        ),
        (score(&[("8", 0.6), ("7", 0.4)]).finish_reason("length"), None),
    ] {
        let (agent, judge) = (agent(), ModelServer::answering(move |_| reply.clone()));
        let project = project(&agent, &judge, METRIC, ONE_CASE);
        project
            .run(&["test"])
            .exits(if expected.is_some() { 0 } else { 4 });
        let (value, evidence) = judged(&project);
        assert_eq!(value, expected);
        assert!(evidence.get("weighted").is_none());
    }
}

#[test]
fn samples_are_taken_only_where_there_are_no_log_probabilities() {
    for (reply, asked) in [(score(&[("8", 0.6), ("6", 0.4)]), 1), (score(&[]), 3)] {
        let (agent, judge) = (agent(), ModelServer::answering(move |_| reply.clone()));
        let metric = METRIC.replace("[Look.]", "[Look.], samples: 3");
        project(&agent, &judge, &metric, ONE_CASE).run(&["test"]).exits(0);
        assert_eq!(judge.finish().len(), asked);
    }
}

#[test]
fn a_resumed_run_has_the_weighted_score_of_its_journal() {
    let (agent, open) = (agent(), Arc::new(Mutex::new(true)));
    let judge = ModelServer::answering({
        let open = Arc::clone(&open);
        move |request| {
            let is_second = request.texts("user").concat().contains("Is it kind?");
            if is_second && *open.lock().unwrap() {
                return Reply::hang();
            }
            score(&[("8", 0.55), ("5", 0.3), ("10", 0.02)])
        }
    });
    let second = METRIC.replace("Correct", "Kind").replace("right?", "kind?");
    let project = project(&agent, &judge, &format!("{METRIC}{second}"), ONE_CASE);
    let mut child = project
        .command(&["test"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let is_journaled = || {
        let journals = project.journals();
        let journal = journals
            .last()
            .and_then(|path| std::fs::read_to_string(path).ok());
        journal.is_some_and(|journal| journal.contains("\"scores\""))
    };
    while !is_journaled() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    *open.lock().unwrap() = false;
    let before = judge.requests().len();
    project.run(&["test", "resume", "latest"]).exits(0);
    assert_eq!(
        judge.requests().len(),
        before + 1,
        "the journal has the first answer"
    );
    let metrics = project.run_file()["report"]["results"][0]["metric_results"].clone();
    assert!(metrics[0]["details"]["weighted"].is_number());
    assert_eq!(
        (&metrics[0]["score"], &metrics[0]["details"]),
        (&metrics[1]["score"], &metrics[1]["details"]),
        "a journaled answer scores as a fresh one"
    );
    assert_ne!(metrics[0]["score"], json!(0.8));
}
