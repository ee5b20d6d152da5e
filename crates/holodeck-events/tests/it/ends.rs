//! Tests of every way in which a run can end, and of what remains open at that moment.

use std::time::Duration;

use holodeck_backend_api::{BackendError, BackendEvent, Outcome, StopReason};
use holodeck_events::agent_execution_result;
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    backend_events::{Emitted, answered, broken, call, ended, result, stop, text, thinking},
    session::record_run,
};

/// The events of a run without chunks.
fn pruned(emitted: Vec<Emitted>) -> Vec<String> {
    record_run(emitted)
        .pruned()
        .iter()
        .map(crate::session::shape)
        .collect()
}

/// The last event of a run.
fn last(emitted: Vec<Emitted>) -> String {
    record_run(emitted).shape().pop().unwrap()
}

#[test]
fn an_error_in_the_middle_of_text() {
    let session = record_run(broken(
        [thinking("hm"), text("half an ans")],
        BackendError::Provider {
            status: Some(529),
            code: Some("overloaded".to_owned()),
            explanation: "the endpoint is overloaded".into(),
            param: None,
            retryable: true,
            retry_after: None,
        },
    ));
    assert_eq!(
        session.shape(),
        [
            "0 user_message_confirmed go",
            "- thinking_chunk 0 \"hm\"",
            "- thinking_complete 0 \"hm\"",
            "- message_chunk 1 \"half an ans\"",
            "1 thinking \"hm\"",
            "2 message pause_turn \"half an ans\" cut by error",
            "3 error BACKEND_ERROR: the endpoint is overloaded",
        ]
    );
    let events = session.events();
    let Some(EventBody::Error(error)) = events.last().map(|event| &event.body) else {
        panic!("no error");
    };
    assert!(error.retryable);
    assert_eq!(error.details, Some(json!({"status": 529, "code": "overloaded"})));
    let result = agent_execution_result(&events).unwrap();
    assert!(!result.success);
    assert_eq!(result.response, "half an ans");
    assert_eq!(result.error.as_deref(), Some("the endpoint is overloaded"));
}

#[test]
fn a_refusal() {
    let emitted = answered([text("I can't"), stop(StopReason::Refusal, "msg_1")]);
    assert_eq!(
        pruned(emitted),
        [
            "0 user_message_confirmed go",
            "1 message refusal \"I can't\"",
            "- complete error refusal",
        ]
    );
}

#[test]
fn the_token_limit() {
    let emitted = answered([text("30 d"), stop(StopReason::MaxTokens, "msg_1")]);
    assert_eq!(
        pruned(emitted),
        [
            "0 user_message_confirmed go",
            "1 message max_tokens \"30 d\"",
            "- complete success max_tokens",
        ]
    );
}

#[test]
fn the_turn_limit_closes_calls_that_did_not_run() {
    let emitted = ended(
        [call("a", "f"), call("b", "g"), stop(StopReason::ToolUse, "msg_1")],
        Outcome::MaxTurns,
    );
    assert_eq!(
        pruned(emitted),
        [
            "0 user_message_confirmed go",
            "1 tool_use a f",
            "2 tool_use b g",
            "3 tool_result a failed \"not answered: max_turns limit reached\"",
            "4 tool_result b failed \"not answered: max_turns limit reached\"",
            "- complete max_turns tool_use",
        ]
    );
}

#[test]
fn a_person_who_stops_the_run_keeps_what_was_written() {
    let emitted = broken([text("so far")], BackendError::Cancelled);
    assert_eq!(
        pruned(emitted),
        [
            "0 user_message_confirmed go",
            "1 message pause_turn \"so far\" cut by user_cancelled",
            "- complete user_cancelled pause_turn",
        ]
    );
}

#[test]
fn a_stop_while_a_tool_runs_closes_the_tool() {
    let emitted = broken(
        [call("a", "f"), stop(StopReason::ToolUse, "msg_1")],
        BackendError::Cancelled,
    );
    assert_eq!(
        pruned(emitted),
        [
            "0 user_message_confirmed go",
            "1 tool_use a f",
            "2 tool_result a failed \"not answered: cancelled\"",
            "- complete user_cancelled tool_use",
        ]
    );
}

#[test]
fn a_process_that_died_has_its_own_code_and_detail() {
    let session = record_run(broken(
        [call("a", "f")],
        BackendError::Terminated {
            detail: "exit status 137".to_owned(),
        },
    ));
    assert_eq!(
        session.shape(),
        [
            "0 user_message_confirmed go",
            "1 tool_use a f",
            "2 tool_result a failed \"not answered: subprocess terminated unexpectedly\"",
            "3 error SUBPROCESS_TERMINATED: subprocess terminated unexpectedly",
        ]
    );
    let Some(EventBody::Error(error)) = session.events().pop().map(|event| event.body) else {
        panic!("no error");
    };
    assert_eq!(error.details, Some(json!({"detail": "exit status 137"})));
}

#[test]
fn each_way_to_end_has_its_event() {
    let failed = |reason: &str| Outcome::Failed {
        reason: reason.to_owned(),
    };
    for (emitted, expected) in [
        (
            broken([text("x")], BackendError::ended_early()),
            "2 error STREAM_TRUNCATED: the stream ended early",
        ),
        (
            broken([], BackendError::ended_early_by("reset")),
            "1 error STREAM_TRUNCATED: the stream ended early: reset",
        ),
        (
            vec![Ok(text("x"))],
            "2 error STREAM_TRUNCATED: the turn ended without a result",
        ),
        (
            broken([], BackendError::protocol("not JSON".to_owned())),
            "1 error BACKEND_ERROR: not JSON",
        ),
        (
            broken(
                [],
                BackendError::Timeout {
                    after: Duration::from_mins(1),
                    cause: None,
                },
            ),
            "1 error BACKEND_ERROR: timeout exceeded",
        ),
        (
            answered([stop(StopReason::EndTurn, "msg_1")]),
            "2 error BACKEND_ERROR: empty response",
        ),
        (
            ended([], Outcome::SubprocessTerminated),
            "1 error SUBPROCESS_TERMINATED: subprocess terminated unexpectedly",
        ),
        (
            ended(
                [],
                Outcome::ToolFailed {
                    name: "f".to_owned(),
                    reason: None,
                },
            ),
            "1 error BACKEND_ERROR: tool execution failed: f",
        ),
        (
            ended([], failed("API error 400: no")),
            "1 error BACKEND_ERROR: API error 400: no",
        ),
        (
            ended([text("done")], Outcome::Completed),
            "- complete success end_turn",
        ),
    ] {
        assert_eq!(last(emitted), expected);
    }
}

#[test]
fn an_unknown_stop_reason_is_recorded_beside_the_known_one() {
    let other = |word: &str| StopReason::from(word.to_owned());
    let message = |emitted| pruned(answered(emitted)).remove(1);
    assert_eq!(
        message(vec![text("x"), stop(other("eos"), "m")]),
        "1 message end_turn \"x\" provider eos"
    );
    assert_eq!(
        message(vec![text("x"), stop(other("pause_turn"), "m")]),
        "1 message pause_turn \"x\""
    );
    // A message with calls awaits their results, even if it ended otherwise.
    assert_eq!(
        message(vec![
            text("x"),
            call("a", "f"),
            stop(StopReason::MaxTokens, "m"),
            result("a", "f", "1"),
            text("y"),
            stop(StopReason::EndTurn, "n"),
        ]),
        "1 message tool_use \"x\" provider max_tokens"
    );
}

#[test]
fn a_message_that_the_backend_aborted_is_cut_off() {
    let cut = |emitted| -> Vec<String> { pruned(emitted).drain(1..).collect() };
    let aborted = || [text("half"), stop(StopReason::aborted(), "msg_1")];
    assert_eq!(
        cut(broken(aborted(), BackendError::Cancelled)),
        [
            "1 message pause_turn \"half\" cut by user_cancelled",
            "- complete user_cancelled pause_turn",
        ]
    );
    let again = aborted()
        .into_iter()
        .chain([text("whole"), stop(StopReason::EndTurn, "msg_2")]);
    assert_eq!(
        cut(answered(again)),
        [
            "1 message pause_turn \"half\" cut by error",
            "2 message end_turn \"whole\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn what_the_backend_reported_is_a_warning_of_the_end() {
    let notice = |message: &str| BackendEvent::Notice {
        message: message.to_owned(),
    };
    let nested = BackendEvent::Nested {
        parent_call_id: "a".to_owned(),
        event: Box::new(notice("of another agent")),
    };
    let session = record_run(answered([
        notice("the oldest message was left out"),
        nested,
        text("ok"),
        stop(StopReason::EndTurn, "m"),
    ]));
    let events = session.events();
    let Some(EventBody::Complete(end)) = events.last().map(|event| &event.body) else {
        panic!("no end");
    };
    assert_eq!(end.warnings, ["the oldest message was left out"]);
}
