//! Cases that run several times, from the command line to every report.

use std::sync::atomic::{AtomicUsize, Ordering};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::{
    project::{Project, agent},
    secrets::REPORTS,
};

const CASE: &str = "  - name: capital\n    input: The capital of France?\n    ground_truth: Paris\n";

/// A server that answers right and wrong by turns.
fn fickle_server() -> ModelServer {
    let asked = AtomicUsize::new(0);
    ModelServer::answering(move |_| match asked.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => Reply::text("Paris."),
        _ => Reply::text("Rome."),
    })
}

#[test]
fn a_flaky_case_is_flaky_everywhere() {
    let server = fickle_server();
    let project = Project::with(&agent(&server.url(), CASE));
    let mut args = vec!["test".to_owned(), "--trials".to_owned(), "4".to_owned()];
    for format in REPORTS {
        args.extend(["--report".to_owned(), format!("{format}=out.{format}")]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = project
        .run(&args)
        .exits(1)
        .says("1 case, 4 trials")
        .says("FLAKY capital")
        .says("2/4 passed, 4 needed, 95 % interval 0.15–0.85")
        .says("0 of 1 passed (0 %), 1 failed (1 flaky)");
    assert!(!ran.all().contains("PASS "), "{}", ran.all());
    assert_eq!(server.finish().len(), 4);
    for format in REPORTS {
        let report = project.read(&format!("out.{format}"));
        assert!(report.contains("flaky"), "{format}: {report}");
    }
    assert!(project.read("out.junit").contains("failures=\"1\""));
    let json: Value = serde_json::from_str(&project.read("out.json")).unwrap();
    let case = &json["results"][0];
    assert_eq!(case["state"], "flaky");
    assert_eq!(case["passed"], false);
    assert_eq!(
        (&case["trials"], &case["trials_passed"], &case["trial_errors"]),
        (&4.into(), &2.into(), &0.into())
    );
    assert_eq!(case["pass_hat_k"], serde_json::json!({"1": 0.5, "4": 0.0}));
    assert_eq!(case["pass_at_k"], serde_json::json!({"1": 0.5, "4": 1.0}));
    assert_eq!(json["summary"]["flaky"], 1);
    assert_eq!(json["summary"]["failed"], 1);
}

#[test]
fn min_passes_lets_a_case_pass() {
    let server = fickle_server();
    let project = Project::with(&agent(&server.url(), CASE));
    project
        .run(&["test", "--trials", "4", "--min-passes", "2"])
        .exits(0)
        .says("PASS capital")
        .says("2/4 passed");
    project
        .run(&["test", "--trials", "4", "--min-passes", "3"])
        .exits(1)
        .says("FLAKY capital");
    assert_eq!(server.finish().len(), 8);
}

#[test]
fn more_passes_than_trials_are_a_usage_error_before_anything_runs() {
    let server = fickle_server();
    let project = Project::with(&agent(&server.url(), CASE));
    project
        .run(&["test", "--trials", "2", "--min-passes", "3"])
        .exits(2)
        .says("needs 3 passes, but runs only 2 times");
    project.run(&["test", "--min-passes", "2"]).exits(2);
    assert!(server.finish().is_empty());
}

#[test]
fn a_recording_replays_each_trial_with_its_own_answer() {
    let server = fickle_server();
    let project = Project::with(&agent(&server.url(), CASE));
    project
        .run(&["test", "--trials", "4", "--record", "tape.jsonl"])
        .exits(1);
    server.finish();
    project
        .run(&["test", "--trials", "4", "--replay", "tape.jsonl"])
        .exits(1)
        .says("2/4 passed");
    // The first trial has the name of its case, so fewer trials can be replayed.
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
}

#[test]
fn one_recorded_answer_is_not_replayed_as_many_trials() {
    let server = fickle_server();
    let project = Project::with(&agent(&server.url(), CASE));
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    server.finish();
    project
        .run(&["test", "--trials", "3", "--replay", "tape.jsonl"])
        .exits(3)
        .says("recorded with fewer trials");
    project
        .run(&[
            "test",
            "--trials",
            "3",
            "--min-passes",
            "2",
            "--replay",
            "tape.jsonl",
        ])
        .exits(3)
        .says("1/1 passed, 2 errors, 2 needed");
}

#[test]
fn a_dry_run_counts_trials() {
    let server = fickle_server();
    let project = Project::with(&agent(&server.url(), CASE));
    project
        .run(&["test", "--trials", "4", "--min-passes", "3", "--dry-run"])
        .exits(0)
        .says("capital × 4, 3 must pass")
        .says("1 case would run, 4 trials");
    assert!(server.finish().is_empty());
}

#[test]
fn a_resumed_run_keeps_the_trials_of_its_flags() {
    let server = fickle_server();
    let yaml = agent(&server.url(), CASE).replace(
        "parallel_test_cases: 1",
        "min_passes: 2\n  parallel_test_cases: 1",
    );
    let project = Project::with(&yaml);
    // Without the flag, the case cannot pass.
    project.run(&["test"]).exits(2);
    project
        .run(&["test", "--trials", "3", "--max-tokens-total", "1"])
        .exits(6)
        .says("not run: capital");
    project
        .run(&["test", "resume"])
        .exits(0)
        .says("1 already finished")
        .says("PASS capital")
        .says("2/3 passed");
    assert_eq!(server.finish().len(), 3);
}
