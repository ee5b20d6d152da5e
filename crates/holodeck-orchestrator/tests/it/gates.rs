//! The gates and the executor.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_orchestrator::{
    AgentChoice, Asking, ExecuteOptions, SelectError, Selected, SelectedBy, Selection, SelectionTask,
    Selector,
    api::BackendError,
    model::{RoutingDecision, TerminationReason},
};
use holodeck_testkit::ScriptedTurn;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::bench::{Bench, context, forced, selection, selects};

#[tokio::test]
async fn a_flag_that_is_off_falls_back_without_a_turn() {
    let mut bench = Bench::answering("done");
    bench.settings.enabled = false;
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkNotEnabled);
    assert!(attempt.should_fallback && !attempt.success);
    assert_eq!(attempt.termination_reason, Some(TerminationReason::Fallback));
    assert!(attempt.fallback_reason.is_some());
    assert_eq!(bench.turns(), 0);
}

#[tokio::test]
async fn a_command_that_passes_every_gate_is_executed() {
    let bench = Bench::answering("done");
    let attempt = bench.execute().await;
    assert!(attempt.success && !attempt.should_fallback);
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkExecuted);
    assert_eq!(attempt.agent_used.as_deref(), Some("reviewer"));
    assert_eq!(attempt.confidence.to_string(), "0.85");
    assert_eq!(
        attempt.termination_reason,
        Some(TerminationReason::SingleIteration)
    );
    assert_eq!(attempt.iteration_count, 1);
    assert_eq!(attempt.fallback_reason, None);
    assert_eq!(
        serde_json::Value::Object(attempt.output),
        json!({"status": "ok", "execution_mode": "sdk", "agent": "reviewer", "output": "done", "message_count": 2})
    );
    assert_eq!(bench.turns(), 1);
}

#[tokio::test]
async fn a_command_that_is_not_in_the_list_is_not_allowed() {
    let bench = Bench::answering("done");
    let mut other = context();
    other.command.name = "deploy".to_owned();
    let attempt = bench.execute_with(&other, &ExecuteOptions::default()).await;
    assert_eq!(attempt.routing_decision, RoutingDecision::CommandNotAllowed);
    assert!(attempt.fallback_reason.unwrap().contains("`deploy`"));
    assert_eq!(bench.turns(), 0);
}

#[tokio::test]
async fn an_empty_list_allows_nothing() {
    let mut bench = Bench::answering("done");
    bench.settings.commands = Vec::new();
    assert_eq!(
        bench.execute().await.routing_decision,
        RoutingDecision::CommandNotAllowed
    );
    // A star is not special.
    bench.settings.commands = vec!["*".to_owned()];
    assert_eq!(
        bench.execute().await.routing_decision,
        RoutingDecision::CommandNotAllowed
    );
}

#[tokio::test]
async fn commands_are_compared_without_case() {
    let bench = Bench::answering("done");
    let mut upper = context();
    upper.command.name = "REVIEW".to_owned();
    assert!(
        bench
            .execute_with(&upper, &ExecuteOptions::default())
            .await
            .success
    );
}

#[tokio::test]
async fn a_backend_that_fails_before_its_first_message_is_an_exception() {
    let errors: [(BackendError, &str); 5] = [
        (BackendError::init("no program"), "Init"),
        (BackendError::session("gone"), "Session"),
        (BackendError::protocol("nonsense"), "Protocol"),
        (
            BackendError::Timeout {
                after: std::time::Duration::from_secs(1),
                cause: None,
            },
            "Timeout",
        ),
        (
            BackendError::Provider {
                status: None,
                code: None,
                explanation: "connection refused".into(),
                param: None,
                retryable: false,
                retry_after: None,
            },
            "Unreachable",
        ),
    ];
    for (error, kind) in errors {
        let turn_error = error.clone();
        let in_turn = Bench::new(move |_| ScriptedTurn::failing(turn_error.clone()));
        let mut at_opening = Bench::answering("done");
        at_opening.specialists.open_error = Some(error);
        for bench in [in_turn, at_opening] {
            let attempt = bench.execute().await;
            assert_eq!(attempt.routing_decision, RoutingDecision::SdkException);
            assert_eq!(attempt.error_type.as_deref(), Some(kind));
            assert_eq!(
                attempt.termination_reason,
                Some(TerminationReason::ExecutionError)
            );
            assert!(attempt.should_fallback && attempt.fallback_reason.is_some());
        }
    }
}

#[tokio::test]
async fn the_evidence_of_a_failed_attempt_is_kept() {
    let bench = Bench::new(|_| {
        ScriptedTurn::nothing()
            .and_called("Edit", json!({"file_path": "src/a.rs"}), "ok")
            .and_fail(BackendError::Terminated {
                detail: "killed".to_owned(),
            })
    });
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkException);
    let evidence = attempt.evidence.unwrap();
    assert_eq!(evidence["files_edited"], json!(["src/a.rs"]));
    assert_eq!(evidence["summary"]["has_file_modifications"], true);
    assert_eq!(evidence["tool_invocations"][0]["success"], true);
}

#[tokio::test]
async fn an_error_message_in_the_stream_keeps_the_partial_answer() {
    let bench = Bench::new(|_| {
        ScriptedTurn::nothing()
            .and_text("half an ans")
            .and_fail(BackendError::Provider {
                status: Some(529),
                code: None,
                explanation: "overloaded".into(),
                param: None,
                retryable: true,
                retry_after: None,
            })
    });
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkErrorMessage);
    assert_eq!(attempt.error_type.as_deref(), Some("SDKErrorMessage"));
    assert_eq!(
        attempt.termination_reason,
        Some(TerminationReason::ExecutionError)
    );
    assert_eq!(attempt.partial.as_deref(), Some("half an ans"));
    assert!(attempt.output.is_empty());
    // A turn that the agent ended badly.
    let bench = Bench::new(|_| ScriptedTurn::text("x").and_end(holodeck_orchestrator::api::Outcome::Refused));
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkErrorMessage);
    assert!(attempt.output.is_empty() && attempt.should_fallback);
}

#[tokio::test]
async fn the_confidence_must_reach_the_threshold() {
    for (confidence, decision) in [
        (0.5, RoutingDecision::LowConfidence),
        (0.7, RoutingDecision::SdkExecuted),
        (f64::NAN, RoutingDecision::LowConfidence),
    ] {
        let mut bench = Bench::answering("done");
        bench.settings.min_confidence = 0.7;
        bench.choice = selects(selection(true, confidence));
        let attempt = bench.execute().await;
        assert_eq!(attempt.routing_decision, decision, "{confidence}");
        assert_eq!(attempt.agent_used.as_deref(), Some("reviewer"));
    }
}

#[tokio::test]
async fn a_default_agent_needs_no_confidence_if_it_may_route() {
    for (selected_by, routes, decision) in [
        (SelectedBy::Default, false, RoutingDecision::LowConfidence),
        (SelectedBy::Default, true, RoutingDecision::SdkExecuted),
        (SelectedBy::Score, true, RoutingDecision::LowConfidence),
    ] {
        let mut bench = Bench::answering("done");
        bench.settings.default_agent_routes = routes;
        bench.choice = selects(Selection {
            selected_by,
            ..selection(true, 0.0)
        });
        let attempt = bench.execute().await;
        assert_eq!(attempt.routing_decision, decision, "{selected_by:?} {routes}");
        assert_eq!(attempt.confidence.to_string(), "0");
    }
}

#[tokio::test]
async fn a_selection_that_declines_falls_back_with_its_confidence() {
    let mut bench = Bench::answering("done");
    bench.choice = selects(selection(false, 0.9));
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SelectionDeclined);
    assert_eq!(attempt.confidence.to_string(), "0.9");
}

#[tokio::test]
async fn without_a_selector_nothing_is_executed_also_with_force() {
    let mut bench = Bench::answering("done");
    bench.choice = AgentChoice::Selected(None);
    for options in [ExecuteOptions::default(), forced()] {
        let attempt = bench.execute_with(&context(), &options).await;
        assert_eq!(attempt.routing_decision, RoutingDecision::NoSelector);
    }
}

#[tokio::test]
async fn an_agent_without_a_definition_is_not_executed() {
    let mut bench = Bench::answering("done");
    bench.specialists.defined = false;
    for options in [ExecuteOptions::default(), forced()] {
        let attempt = bench.execute_with(&context(), &options).await;
        assert_eq!(attempt.routing_decision, RoutingDecision::NoSdkDefinition);
        assert_eq!(attempt.agent_used.as_deref(), Some("reviewer"));
        assert_eq!(attempt.confidence.to_string(), "0.85");
    }
}

#[tokio::test]
async fn force_skips_what_asks_whether_to_use_the_backend() {
    let mut bench = Bench::answering("done");
    bench.settings.enabled = false;
    bench.settings.commands = Vec::new();
    bench.choice = selects(selection(false, 0.1));
    let attempt = bench.execute_with(&context(), &forced()).await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkExecuted);
    assert_eq!(attempt.confidence.to_string(), "0.1");
    assert_eq!(bench.turns(), 1);
}

#[tokio::test]
async fn disable_comes_before_force() {
    let bench = Bench::answering("done");
    let options = ExecuteOptions {
        disable_sdk: true,
        ..forced()
    };
    let attempt = bench.execute_with(&context(), &options).await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkDisabledOverride);
    assert_eq!(bench.turns(), 0);
}

#[tokio::test]
async fn a_missing_program_is_unavailable_also_with_force() {
    let mut bench = Bench::answering("done");
    bench.specialists.unavailable = Some("no `claude` is on the path".to_owned());
    let attempt = bench.execute_with(&context(), &forced()).await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkUnavailable);
    assert_eq!(
        attempt.termination_reason,
        Some(TerminationReason::SdkUnavailable)
    );
    assert_eq!(
        attempt.fallback_reason.as_deref(),
        Some("no `claude` is on the path")
    );
}

struct Panicking;

#[async_trait]
impl Selector for Panicking {
    async fn select(&self, _task: &SelectionTask, _: &Asking<'_>) -> Result<Selected, SelectError> {
        panic!("the selector is broken");
    }
}

#[tokio::test]
async fn a_selector_that_panics_is_an_exception() {
    let mut bench = Bench::answering("done");
    bench.choice = AgentChoice::Selected(Some(Arc::new(Panicking)));
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkException);
    assert_eq!(attempt.error_type.as_deref(), Some("Panic"));
    assert_eq!(attempt.fallback_reason.as_deref(), Some("the selector is broken"));
    // Building the task is inside the guard, too.
    let mut bench = Bench::answering("done");
    bench.settings.task = Arc::new(|_| panic!("no task"));
    assert_eq!(
        bench.execute().await.routing_decision,
        RoutingDecision::SdkException
    );
}

#[tokio::test]
async fn a_backend_that_panics_keeps_what_was_observed() {
    let bench = Bench::new(|asked| {
        assert!(asked.index > 5, "the backend is broken");
        ScriptedTurn::nothing()
    });
    let attempt = bench.execute().await;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkException);
    assert_eq!(attempt.error_type.as_deref(), Some("Panic"));
    assert_eq!(attempt.agent_used.as_deref(), Some("reviewer"));
    assert_eq!(
        attempt.termination_reason,
        Some(TerminationReason::ExecutionError)
    );
}

#[tokio::test]
async fn a_stopped_attempt_does_not_fall_back() {
    let bench = Bench::new(|_| ScriptedTurn::nothing().and_text("half").and_hang());
    let options = ExecuteOptions::default();
    let context = context();
    let running = bench.execute_with(&context, &options);
    let stop = async {
        while bench.turns() == 0 {
            tokio::task::yield_now().await;
        }
        options.cancel.cancel();
    };
    let (attempt, ()) = tokio::join!(running, stop);
    assert_eq!(attempt.termination_reason, Some(TerminationReason::Cancelled));
    assert!(!attempt.should_fallback && !attempt.success);
}
