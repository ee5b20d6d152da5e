use std::time::Duration;

use holodeck_backend_api::{BackendError, Outcome, StopReason};
use holodeck_events::agent_execution_result;
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    recorded::recorded,
    said::{Said, answered, broken, call, ended, result, stop, text, thinking},
};

/// The kept events of a run.
fn kept(said: Vec<Said>) -> Vec<String> {
    recorded(said).kept().iter().map(crate::recorded::shape).collect()
}

/// The last event of a run.
fn last(said: Vec<Said>) -> String {
    recorded(said).shape().pop().unwrap()
}

#[test]
fn e_15_an_error_in_the_middle_of_text() {
    let recorded = recorded(broken(
        [thinking("hm"), text("half an ans")],
        BackendError::Provider {
            status: Some(529),
            code: Some("overloaded".to_owned()),
            message: "the endpoint is overloaded".to_owned(),
            param: None,
            retryable: true,
            retry_after: None,
        },
    ));
    assert_eq!(
        recorded.shape(),
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
    let events = recorded.events();
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
fn e_16_a_refusal() {
    let said = answered([text("I can't"), stop(StopReason::Refusal, "msg_1")]);
    assert_eq!(
        kept(said),
        [
            "0 user_message_confirmed go",
            "1 message refusal \"I can't\"",
            "- complete error refusal",
        ]
    );
}

#[test]
fn e_16_the_token_limit() {
    let said = answered([text("30 d"), stop(StopReason::MaxTokens, "msg_1")]);
    assert_eq!(
        kept(said),
        [
            "0 user_message_confirmed go",
            "1 message max_tokens \"30 d\"",
            "- complete success max_tokens",
        ]
    );
}

#[test]
fn e_16_the_turn_limit_closes_the_calls_nobody_ran() {
    let said = ended(
        [call("a", "f"), call("b", "g"), stop(StopReason::ToolUse, "msg_1")],
        Outcome::MaxTurns,
    );
    assert_eq!(
        kept(said),
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
    let said = broken([text("so far")], BackendError::Cancelled);
    assert_eq!(
        kept(said),
        [
            "0 user_message_confirmed go",
            "1 message pause_turn \"so far\" cut by user_cancelled",
            "- complete user_cancelled pause_turn",
        ]
    );
}

#[test]
fn a_stop_while_a_tool_runs_closes_the_tool() {
    let said = broken(
        [call("a", "f"), stop(StopReason::ToolUse, "msg_1")],
        BackendError::Cancelled,
    );
    assert_eq!(
        kept(said),
        [
            "0 user_message_confirmed go",
            "1 tool_use a f",
            "2 tool_result a failed \"not answered: cancelled\"",
            "- complete user_cancelled tool_use",
        ]
    );
}

#[test]
fn a_process_that_died_is_told_apart_and_its_last_words_are_kept() {
    let recorded = recorded(broken(
        [call("a", "f")],
        BackendError::Terminated {
            detail: "exit status 137".to_owned(),
        },
    ));
    assert_eq!(
        recorded.shape(),
        [
            "0 user_message_confirmed go",
            "1 tool_use a f",
            "2 tool_result a failed \"not answered: subprocess terminated unexpectedly\"",
            "3 error SUBPROCESS_TERMINATED: subprocess terminated unexpectedly",
        ]
    );
    let Some(EventBody::Error(error)) = recorded.events().pop().map(|event| event.body) else {
        panic!("no error");
    };
    assert_eq!(error.details, Some(json!({"detail": "exit status 137"})));
}

#[test]
fn each_way_to_end_has_its_event() {
    let failed = |reason: &str| Outcome::Failed {
        reason: reason.to_owned(),
    };
    for (said, expected) in [
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
            broken(
                [],
                BackendError::Protocol {
                    message: "not JSON".to_owned(),
                },
            ),
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
            ended([], Outcome::ToolFailed { name: "f".to_owned() }),
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
        assert_eq!(last(said), expected);
    }
}

#[test]
fn a_word_the_contract_does_not_have_is_told_beside() {
    let other = |word: &str| StopReason::from(word.to_owned());
    let message = |said| kept(answered(said)).remove(1);
    assert_eq!(
        message(vec![text("x"), stop(other("eos"), "m")]),
        "1 message end_turn \"x\" said eos"
    );
    assert_eq!(
        message(vec![text("x"), stop(other("pause_turn"), "m")]),
        "1 message pause_turn \"x\""
    );
    // A message with calls waits for them, whatever else ended it.
    assert_eq!(
        message(vec![
            text("x"),
            call("a", "f"),
            stop(StopReason::MaxTokens, "m"),
            result("a", "f", "1"),
            text("y"),
            stop(StopReason::EndTurn, "n"),
        ]),
        "1 message tool_use \"x\" said max_tokens"
    );
}

#[test]
fn a_message_the_backend_says_was_cut_is_one() {
    let cut = |said| -> Vec<String> { kept(said).drain(1..).collect() };
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
