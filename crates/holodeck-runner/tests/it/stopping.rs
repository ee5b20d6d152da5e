//! Tests of runs that end early: terminated, or without an endpoint.

use std::time::Duration;

use holodeck_backend_api::BackendError;
use holodeck_runner::RunControl;
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;

use crate::support::{Project, run, run_with};

fn project(cases: usize) -> Project {
    let cases = (0..cases)
        .map(|n| format!("  - {{name: n{n}, input: q{n}, ground_truth: Paris}}\n"))
        .collect::<Vec<_>>()
        .concat();
    Project::new(&format!(
        "evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\ntest_cases:\n{cases}"
    ))
}

fn unreachable() -> ScriptedTurn {
    ScriptedTurn::failing(BackendError::Provider {
        status: None,
        code: None,
        explanation: "the model endpoint did not answer".into(),
        param: None,
        retryable: true,
        retry_after: None,
    })
}

#[tokio::test]
async fn a_terminated_run_cancels_its_cases_and_is_written() {
    let project = project(10);
    let control = RunControl::new();
    let backend = {
        let control = control.clone();
        ScriptedBackend::answering(move |asked| match asked.index {
            0 => ScriptedTurn::text("Paris"),
            1..4 => ScriptedTurn::hanging(),
            _ => {
                control.terminate(Duration::from_secs(4));
                ScriptedTurn::hanging()
            }
        })
    };
    let run = run_with(project.request(&backend), &control).await.unwrap();
    assert_eq!(run.code(), 143);
    assert_eq!(run.outcome.head.ended, "terminated");
    assert_eq!(run.outcome.head.summary.passed, 1);
    assert!(run.outcome.run_file.exists());
}

#[tokio::test]
async fn a_run_stopped_before_its_first_case_calls_no_model() {
    for (stop, code) in [
        (RunControl::interrupt as fn(&RunControl) -> _, 130),
        (
            |control: &RunControl| {
                control.terminate(Duration::from_secs(4));
                holodeck_runner::Stop::Now
            },
            143,
        ),
    ] {
        let control = RunControl::new();
        stop(&control);
        let backend = ScriptedBackend::answering(|_| ScriptedTurn::text("Paris"));
        let run = run_with(project(3).request(&backend), &control).await.unwrap();
        assert_eq!((run.code(), backend.turns()), (code, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn closing_shares_the_remaining_time() {
    let control = RunControl::new();
    assert_eq!(control.within(async { 1 }).await, Some(1));
    control.terminate(Duration::from_secs(4));
    // A second signal does not extend the deadline.
    control.terminate(Duration::from_mins(1));
    let start = tokio::time::Instant::now();
    assert_eq!(control.within(std::future::pending::<()>()).await, None);
    assert_eq!(control.within(std::future::pending::<()>()).await, None);
    assert_eq!(start.elapsed(), Duration::from_secs(4));
}

#[tokio::test]
async fn three_cases_in_a_row_without_an_endpoint_end_the_run() {
    let project = project(200);
    let mut request = project.request(&ScriptedBackend::answering(|_| unreachable()));
    request.settings.concurrency = 1;
    let run = run(request).await.unwrap();
    let head = &run.outcome.head;
    assert_eq!((run.code(), head.ended.as_str()), (3, "stopped"));
    assert_eq!((head.summary.errors, head.summary.total_tests), (3, 3));
}

#[tokio::test]
async fn cases_in_flight_finish_and_an_answer_resets_the_count() {
    let project = project(30);
    let backend = ScriptedBackend::answering(|asked| match asked.index % 3 {
        2 => ScriptedTurn::text("Paris"),
        _ => unreachable(),
    });
    let mut request = project.request(&backend);
    request.settings.concurrency = 1;
    let run = run(request).await.unwrap();
    let head = &run.outcome.head;
    assert_eq!((run.code(), head.ended.as_str()), (3, "completed"));
    assert_eq!((head.summary.errors, head.summary.passed), (20, 10));
}
