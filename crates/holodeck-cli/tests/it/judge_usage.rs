//! Tests that the usage of judges is counted across a kill.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::Project;

/// Tokens of each answer.
const TOKENS: u64 = 15;

#[test]
fn what_failed_and_shared_calls_used_counts_after_a_kill() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let scores = Arc::new(Mutex::new(0));
    let judge = ModelServer::answering({
        let scores = Arc::clone(&scores);
        move |request| {
            if request.body["response_format"]["json_schema"]["name"] == "items" {
                return Reply::text("{\"items\": [\"Look.\"]}");
            }
            let mut scores = scores.lock().unwrap();
            *scores += 1;
            match *scores {
                // Prose, also when the judge is asked to correct it.
                1 | 2 => Reply::text("I would say it is good."),
                3 => Reply::hang(),
                _ => Reply::text("{\"reason\": \"r\", \"score\": 8}"),
            }
        }
    });
    let project = Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Be brief.}}\n\
         evaluations:\n  model: {{provider: openai, name: j, endpoint: \"{}\"}}\n  metrics:\n    \
         - {{type: geval, name: g, criteria: Is it right?, retry_on_failure: 1}}\n\
         test_cases:\n  - {{input: q}}\n",
        agent.url(),
        judge.url()
    ));
    let mut child = project.command(&["test"]).stdout(Stdio::null()).spawn().unwrap();
    let journaled_calls = || {
        let journals = project.journals();
        let journal = journals
            .last()
            .and_then(|path| std::fs::read_to_string(path).ok());
        let journal = journal.unwrap_or_default();
        let lines = journal
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let calls = lines.filter(|line| line["judged"].is_object());
        let kinds = calls.map(|line| {
            (
                line["judged"]["answer"].is_object(),
                line["judged"]["key"].is_null(),
            )
        });
        kinds.collect::<Vec<_>>()
    };
    // The score, which failed.
    while journaled_calls() != [(false, false)] {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    while *scores.lock().unwrap() < 3 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    project.run(&["test", "resume", "latest"]).exits(0);
    let report = project.run_file()["report"].clone();
    // Two answers of prose, and the score; not the question that was never answered. The steps, which were derived before
    // the first case, are no part of a case but of the run.
    let used = &report["results"][0]["judge_usage"];
    assert_eq!(used["total_tokens"], json!(3 * TOKENS));
    let of_run = &report["summary"]["judge_usage"];
    assert_eq!(of_run["total_tokens"], json!(4 * TOKENS));
    assert_eq!(report["results"][0]["metric_results"][0]["score"], json!(0.8));
}
