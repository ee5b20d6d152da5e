//! Tests of recorded questions: between call and result, with changed arguments, and withdrawn at the end.

use std::time::Duration;

use holodeck_backend_api::{ApprovalDecision, BackendError, BackendEvent, ExecutionResult, StopReason};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    backend_events::{answer, answered, ask, broken, call, failed_result, result, stop, text},
    contract::{Subject, session_run},
    session::record_run,
};

#[test]
fn an_approval_is_between_a_call_and_its_result() {
    let emitted = [
        call("a", "delete_all"),
        stop(StopReason::ToolUse, "msg_1"),
        ask("a", "delete_all"),
        answer("a", ApprovalDecision::approve()),
        result("a", "delete_all", "gone"),
        text("done"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "1 tool_use a delete_all",
            "- approval_requested a delete_all high",
            "- approval_resolved true approved",
            "2 tool_result a ok \"gone\"",
            "- message_chunk 0 \"done\"",
            "3 message end_turn \"done\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn a_rejected_call_has_the_reason_in_its_result_and_the_run_continues() {
    let reject = ApprovalDecision::Reject {
        reason: "not today".to_owned(),
    };
    let emitted = [
        call("a", "update_row"),
        stop(StopReason::ToolUse, "msg_1"),
        ask("a", "update_row"),
        answer("a", reject),
        failed_result("a", "update_row", "not today"),
        text("ok"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    let session = record_run(answered(emitted));
    assert_eq!(
        session.shape()[2..5],
        [
            "- approval_requested a update_row medium",
            "- approval_resolved false rejected",
            "2 tool_result a failed \"not today\"",
        ]
    );
    let reason = session.events().into_iter().find_map(|event| match event.body {
        EventBody::ApprovalResolved(resolved) => resolved.reason,
        _ => None,
    });
    assert_eq!(reason.as_deref(), Some("not today"));
}

#[test]
fn modified_arguments_are_recorded_beside_the_models() {
    let modify = ApprovalDecision::Approve {
        arguments: Some(json!({"q": "safe"})),
    };
    let emitted = [
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        ask("a", "f"),
        answer("a", modify),
        result("a", "f", "1"),
    ];
    let events = record_run(answered(emitted)).events();
    let args = events.iter().find_map(|event| match &event.body {
        EventBody::ToolUse(call) => Some(call.args.clone()),
        _ => None,
    });
    let modified = events.iter().find_map(|event| match &event.body {
        EventBody::ApprovalResolved(resolved) => resolved.modified_args.clone(),
        _ => None,
    });
    assert_eq!(
        (args, modified),
        (Some(json!({"q": "a"})), Some(json!({"q": "safe"})))
    );
}

#[test]
fn a_question_in_the_middle_of_a_message_records_its_beginning() {
    let emitted = [
        text("two things"),
        call("a", "f"),
        ask("a", "f"),
        call("b", "g"),
        answer("a", ApprovalDecision::approve()),
        stop(StopReason::ToolUse, "msg_1"),
        result("b", "g", "2"),
        text("early"),
        result("a", "f", "1"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "- message_chunk 0 \"two things\"",
            "1 message tool_use \"two things\"",
            "2 tool_use a f",
            "- approval_requested a f low",
            "3 tool_use b g",
            "- approval_resolved true approved",
            "4 tool_result b ok \"2\"",
            "5 tool_result a ok \"1\"",
            "- message_chunk 0 \"early\"",
            "6 message end_turn \"early\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn a_question_before_the_call_is_its_call() {
    let emitted = [
        ask("a", "f"),
        answer("a", ApprovalDecision::approve()),
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("a", "f", "1"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape()[1..5],
        [
            "1 tool_use a f",
            "- approval_requested a f low",
            "- approval_resolved true approved",
            "2 tool_result a ok \"1\"",
        ]
    );
}

#[test]
fn what_is_not_answered_when_the_run_ends_is_taken_back() {
    let emitted = [call("a", "f"), stop(StopReason::ToolUse, "msg_1"), ask("a", "f")];
    let died = BackendError::Terminated {
        detail: String::new(),
    };
    assert_eq!(
        record_run(broken(emitted, died)).shape()[1..4],
        [
            "1 tool_use a f",
            "- approval_requested a f low",
            "- approval_resolved false cancelled",
        ]
    );
}

#[test]
fn the_time_in_which_a_person_decides_is_not_that_of_the_run() {
    let subject = Subject::memory();
    for (ends_while_asked, expected) in [(false, 7_000), (true, 3_000)] {
        let (mut run, _) = subject.draft(session_run("s"));
        let mut after = |seconds, event: BackendEvent| {
            subject.clock.advance(Duration::from_secs(seconds));
            run.observe(&event);
        };
        after(1, call("a", "f"));
        after(2, BackendEvent::Paused);
        if !ends_while_asked {
            after(100, BackendEvent::Resumed);
            after(4, BackendEvent::Paused);
        }
        subject.clock.advance(Duration::from_secs(1_000));
        let drafts = run.complete(ExecutionResult::default());
        let end = &drafts.last().unwrap().event().body;
        let totals = match end {
            EventBody::Complete(end) => &end.totals,
            EventBody::Error(end) => &end.totals,
            other => panic!("{other:?}"),
        };
        assert_eq!(totals.duration_ms, Some(expected));
    }
}
