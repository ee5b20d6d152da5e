//! Backends that break the contract.

use holodeck_backend_api::{ApprovalDecision, ExecutionResult, StopReason};
use holodeck_events::Ignored;
use holodeck_model::events::{EventBody, IdSource};
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{answer, answered, ask, call, nested, result, stop, text, thinking},
    session::{TestSession, record_run},
};

fn ignored(session: &TestSession) -> Vec<Ignored> {
    session.runs[0].trajectory.ignored().cloned().collect()
}

fn id() -> String {
    "a".to_owned()
}

#[test]
fn what_would_break_the_record_is_left_out_and_reported() {
    let emitted = [
        result("a", "f", "too early"),
        call("a", "f"),
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        answer("a", ApprovalDecision::approve()),
        ask("a", "f"),
        ask("a", "f"),
        answer("a", ApprovalDecision::approve()),
        result("a", "f", "1"),
        result("a", "f", "again"),
        ask("a", "f"),
    ];
    let session = record_run(answered(emitted));
    assert_eq!(
        ignored(&session),
        [
            Ignored::ResultWithoutCall { id: id() },
            Ignored::RepeatedCall { id: id() },
            Ignored::AnswerWithoutAsk { id: id() },
            Ignored::RepeatedAsk { id: id() },
            Ignored::RepeatedResult { id: id() },
            Ignored::AskAfterResult { id: id() },
        ]
    );
    assert_eq!(
        session.shape(),
        [
            "0 user_message_confirmed go",
            "1 tool_use a f",
            "- approval_requested a f low",
            "- approval_resolved true approved",
            "2 tool_result a ok \"1\"",
            "3 error BACKEND_ERROR: empty response",
        ]
    );
}

#[test]
fn a_call_without_an_id_gets_one_that_is_marked() {
    let emitted = [
        call("", "f"),
        call("x", "f"),
        call("", "g"),
        stop(StopReason::ToolUse, "msg_1"),
        result("", "g", "3"),
        result("", "f", "1"),
        result("x", "f", "2"),
        text("done"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    let session = record_run(answered(emitted));
    assert_eq!(
        session.shape()[1..7],
        [
            "1 tool_use hd_1 f",
            "2 tool_use x f",
            "3 tool_use hd_2 g",
            "4 tool_result hd_2 ok \"3\"",
            "5 tool_result hd_1 ok \"1\"",
            "6 tool_result x ok \"2\"",
        ]
    );
    let minted: Vec<_> = session
        .events()
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::ToolUse(call) => Some(call.id_source == Some(IdSource::Minted)),
            _ => None,
        })
        .collect();
    assert_eq!(minted, [true, false, true]);
}

#[test]
fn a_result_in_the_middle_of_a_message_and_text_after_it() {
    let emitted = [
        thinking("hm"),
        text("first"),
        call("a", "f"),
        result("a", "f", "1"),
        thinking("so"),
        text("second"),
        stop(StopReason::EndTurn, "msg_1"),
    ];
    let session = record_run(answered(emitted));
    assert_eq!(
        session.shape(),
        [
            "0 user_message_confirmed go",
            "- thinking_chunk 0 \"hm\"",
            "- thinking_complete 0 \"hm\"",
            "- message_chunk 1 \"first\"",
            "1 thinking \"hm\"",
            "2 message tool_use \"first\"",
            "3 tool_use a f",
            "4 tool_result a ok \"1\"",
            "- thinking_chunk 3 \"so\"",
            "- thinking_complete 3 \"so\"",
            "- message_chunk 4 \"second\"",
            "5 thinking \"so\"",
            "6 message end_turn \"second\"",
            "- complete success end_turn",
        ]
    );
    // It was one model message: the answer is all of its text.
    assert_eq!(session.runs[0].result.response, "firstsecond");
    let recorded = ExecutionResult {
        finish_reason: None,
        ..session.runs[0].result.clone()
    };
    assert_eq!(
        holodeck_events::execution_result(&session.pruned()),
        Some(recorded)
    );
}

#[test]
fn a_call_that_two_agents_make_has_one_result() {
    let emitted = [
        call("a", "Agent"),
        stop(StopReason::ToolUse, "msg_1"),
        call("d", "f"),
        result("d", "f", "of the run"),
        nested("a", call("d", "f")),
        nested("a", stop(StopReason::ToolUse, "sub_1")),
        result("a", "Agent", "1"),
    ];
    let session = record_run(answered(emitted));
    assert_eq!(
        ignored(&session),
        [
            Ignored::RepeatedCall { id: "d".to_owned() },
            Ignored::ResultWithoutCall { id: "d".to_owned() },
        ]
    );
    assert_eq!(
        session.shape()[2..5],
        [
            "2 tool_use d f under a",
            "3 tool_result a ok \"1\"",
            "4 tool_result d failed \"not answered: empty response\" under a",
        ]
    );
}

#[test]
fn a_message_without_an_end_is_ended_by_the_run() {
    let session = record_run(answered([text("hi")]));
    assert_eq!(
        session.shape()[2..],
        ["1 message end_turn \"hi\"", "- complete success end_turn"]
    );
}
