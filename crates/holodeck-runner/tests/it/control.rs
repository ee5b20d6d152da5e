//! Tests of what ends a run early: interrupts, budgets, bad credentials, failures and the lock.

use holodeck_backend_api::BackendError;
use holodeck_model::{CaseState, Replayed};
use holodeck_runner::{Budget, OnFailure, RunControl, RunEvent, Selection, run_tests};
use holodeck_runs::{RunLock, RunStore};
use holodeck_testkit::{Gate, ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;

use crate::support::{Events, Project, run, run_with};

fn project(cases: usize) -> Project {
    let cases = (0..cases)
        .map(|n| format!("  - {{name: n{n}, input: q{n}, ground_truth: Paris}}\n"))
        .collect::<Vec<_>>()
        .concat();
    Project::new(&format!(
        "evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\ntest_cases:\n{cases}"
    ))
}

fn paris() -> ScriptedBackend {
    ScriptedBackend::answering(|_| ScriptedTurn::text("Paris"))
}

#[tokio::test]
async fn the_first_interrupt_lets_running_cases_finish() {
    let project = project(10);
    let control = RunControl::new();
    let gate = Gate::new();
    let backend = {
        let (control, gate) = (control.clone(), gate.clone());
        ScriptedBackend::answering(move |asked| {
            if asked.index == 3 {
                control.interrupt();
                gate.open();
            }
            ScriptedTurn::nothing().and_wait_for(&gate).and_text("Paris")
        })
    };
    let run = run_with(project.request(&backend), &control).await.unwrap();
    assert_eq!(run.code(), 130);
    assert_eq!(run.outcome.head.ended, "interrupted");
    assert_eq!(run.outcome.head.summary.passed, 4);
    assert!(
        run.events
            .0
            .iter()
            .any(|event| matches!(event, RunEvent::Draining { .. }))
    );
}

#[tokio::test]
async fn the_second_interrupt_stops_running_cases_which_do_not_count() {
    let project = project(10);
    let control = RunControl::new();
    let backend = {
        let control = control.clone();
        ScriptedBackend::answering(move |asked| {
            if asked.index == 3 {
                control.interrupt();
                control.interrupt();
            }
            if asked.index == 0 {
                ScriptedTurn::text("Paris")
            } else {
                ScriptedTurn::hanging()
            }
        })
    };
    let run = run_with(project.request(&backend), &control).await.unwrap();
    assert_eq!(run.code(), 130);
    assert!(run.outcome.head.summary.total_tests <= 1);
}

#[tokio::test]
async fn a_wrong_key_stops_the_run_at_once() {
    let project = project(50);
    let backend = ScriptedBackend::answering(|_| {
        ScriptedTurn::failing(BackendError::Provider {
            status: Some(401),
            code: None,
            explanation: "wrong key".into(),
            param: None,
            retryable: false,
            retry_after: None,
        })
    });
    let run = run(project.request(&backend)).await.unwrap();
    assert_eq!(run.code(), 3);
    assert_eq!(run.outcome.head.ended, "stopped");
    assert!(backend.turns() <= 4, "{} turns", backend.turns());
    assert!(
        run.results()
            .iter()
            .all(|result| result.state == CaseState::Error)
    );
}

#[tokio::test]
async fn a_budget_stops_the_run() {
    let project = project(20);
    let mut request = project.request(&paris());
    request.settings.concurrency = 1;
    request.settings.budget = Budget {
        max_tokens_total: Some(40),
        max_cost_usd: None,
    };
    let run = run(request).await.unwrap();
    assert_eq!(run.code(), 6);
    // With 15 tokens per case, the third case exceeds the budget.
    assert_eq!(run.outcome.head.summary.total_tests, 3);
}

#[tokio::test]
async fn a_budget_that_cannot_be_enforced_stops_the_run() {
    let project = project(20);
    let backend = ScriptedBackend::answering(|_| ScriptedTurn::nothing().and_text("Paris"));
    let mut request = project.request(&backend);
    request.settings.concurrency = 1;
    request.settings.budget = Budget {
        max_tokens_total: Some(40),
        max_cost_usd: None,
    };
    let run = run(request).await.unwrap();
    assert_eq!((run.code(), run.outcome.head.summary.total_tests), (3, 1));
    assert_eq!(run.outcome.not_run().unwrap().len(), 19);
}

#[tokio::test]
async fn a_turn_that_this_run_did_not_cancel_is_an_error_and_not_lost() {
    let project = project(3);
    let backend = ScriptedBackend::answering(|asked| {
        if asked.message == "q1" {
            ScriptedTurn::failing(BackendError::Cancelled)
        } else {
            ScriptedTurn::text("Paris")
        }
    });
    let run = run(project.request(&backend)).await.unwrap();
    assert_eq!((run.code(), run.outcome.head.ended.as_str()), (3, "completed"));
    let summary = &run.outcome.head.summary;
    assert_eq!((summary.passed, summary.errors, summary.not_run), (2, 1, 0));
    assert_eq!(
        run.results()[1].errors,
        ["the turn was cancelled, but not by this run"]
    );
}

#[tokio::test]
async fn fail_fast_keeps_a_slot_until_the_verdict_is_known() {
    let project = project(20);
    // Long enough to be graded on another thread.
    let backend = ScriptedBackend::answering(|_| ScriptedTurn::text(&"Rome ".repeat(4_000)));
    let mut request = project.request(&backend);
    request.settings.concurrency = 1;
    request.settings.on_failure = OnFailure::Stop;
    let run = run(request).await.unwrap();
    assert_eq!((run.code(), backend.turns()), (1, 1));
    assert_eq!(run.outcome.head.summary.not_run, 19);
}

#[tokio::test]
async fn a_replayed_run_uses_no_budget() {
    let project = project(20);
    let mut request = project.request(&paris());
    request.settings.budget = Budget {
        max_tokens_total: Some(40),
        max_cost_usd: Some(0.01),
    };
    request.replayed = Some(Replayed {
        recorded: "2026-11-21".to_owned(),
        model: "m".to_owned(),
        cassette: "c.jsonl".to_owned(),
    });
    let run = run(request).await.unwrap();
    assert_eq!((run.code(), run.outcome.head.summary.passed), (0, 20));
}

#[tokio::test]
async fn fail_fast_starts_nothing_after_a_failure() {
    let project = project(20);
    let backend = ScriptedBackend::answering(|_| ScriptedTurn::text("Rome"));
    let mut request = project.request(&backend);
    request.settings.concurrency = 1;
    request.settings.on_failure = OnFailure::Stop;
    let run = run(request).await.unwrap();
    assert_eq!((run.code(), run.outcome.head.summary.total_tests), (1, 1));
}

#[tokio::test]
async fn filter_and_limit_select_cases() {
    let project = project(20);
    let mut request = project.request(&paris());
    request.selection = Selection {
        filter: Some("n1*".to_owned()),
        limit: Some(3),
        ..Selection::default()
    };
    let run = run(request).await.unwrap();
    let names: Vec<_> = run
        .results()
        .into_iter()
        .map(|result| result.test_name.unwrap())
        .collect();
    assert_eq!(names, ["n1", "n10", "n11"]);
}

#[tokio::test]
async fn only_one_run_at_a_time_may_write() {
    let project = project(1);
    let store = RunStore::new(project.dir.path());
    let lock = RunLock::acquire(&store.lock_path(), "another process").unwrap();
    let error = run_tests(
        project.request(&paris()),
        &RunControl::new(),
        &mut Events::default(),
    )
    .await
    .unwrap_err();
    assert_eq!(error.to_string(), "another run is writing here: another process");
    drop(lock);
    run(project.request(&paris())).await.unwrap();
}
