//! Tests that decisions, nested calls, notices and ignored events are kept in order.

use std::time::Duration;

use holodeck_backend_api::{ApprovalDecision, BackendError, BackendEvent, EventStream, StopReason};
use holodeck_events::{NewRun, Trajectory};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    backend_events::{
        answer, answered, ask, broken, call, decided, nested, notice, result, stop, text, thinking,
    },
    session::{TestSession, record_run},
};

fn steps(trajectory: &Trajectory) -> serde_json::Value {
    serde_json::to_value(trajectory).unwrap()
}

#[test]
fn a_trajectory_has_decisions_nested_calls_notices_and_ignored_events_in_order() {
    let emitted = [
        thinking("hm"),
        call("t", "Agent"),
        decided("t"),
        stop(StopReason::ToolUse, "msg_1"),
        nested("t", text("looking")),
        nested("t", call("u", "search")),
        ask("u", "search"),
        answer("u", ApprovalDecision::reject("no")),
        // The backend reports it outside of the agent that made the call.
        decided("u"),
        nested("t", result("u", "search", "30")),
        nested("t", notice("slow")),
        result("t", "Agent", "it is 30"),
        result("t", "Agent", "again"),
        answer("x", ApprovalDecision::approve()),
        text("30 days"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    let session = record_run(answered(emitted));
    let trajectory = &session.runs[0].trajectory;
    assert_eq!(
        steps(trajectory),
        json!([
            {"approval": {"call_id": "t", "decision": {"approve": {}}, "by": "rule"}},
            {"parent_call_id": "t", "tool_call": {"name": "search", "arguments": {"q": "u"}, "call_id": "u"}},
            {"parent_call_id": "t",
             "approval": {"call_id": "u", "decision": {"reject": {"reason": "no"}}, "by": "person"}},
            {"parent_call_id": "t",
             "approval": {"call_id": "u", "decision": {"approve": {}}, "by": "rule"}},
            {"parent_call_id": "t", "tool_result":
                {"call_id": "u", "name": "search", "result": "30", "is_error": false, "duration_ms": 5}},
            {"parent_call_id": "t", "notice": {"message": "slow"}},
            {"ignored": {"repeated_result": {"id": "t"}}},
            {"ignored": {"answer_without_ask": {"id": "x"}}},
            {"approval": {"call_id": "x", "decision": {"approve": {}}, "by": "person"}},
        ])
    );
    assert_eq!(trajectory.approvals().count(), 4);
    let read: Trajectory = serde_json::from_value(steps(trajectory)).unwrap();
    assert_eq!(&read, trajectory);
}

#[test]
fn an_ordinary_turn_has_no_trajectory() {
    let emitted = [
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("a", "f", "1"),
        text("done"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    assert!(record_run(answered(emitted)).runs[0].trajectory.is_empty());
}

#[test]
fn a_question_that_the_end_of_the_run_withdraws_is_a_decision() {
    let emitted = [call("a", "f"), stop(StopReason::ToolUse, "msg_1"), ask("a", "f")];
    let session = record_run(broken(emitted, BackendError::Cancelled));
    assert_eq!(
        steps(&session.runs[0].trajectory),
        json!([{"approval": {"call_id": "a", "decision": "withdrawn", "by": "person"}}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_time_out_is_recorded_as_the_end_of_the_run() {
    let session = TestSession::new();
    let stream: EventStream<'_> = Box::pin(async_stream::stream! {
        yield Ok(text("half an ans"));
        yield Ok(BackendEvent::Paused);
        tokio::time::sleep(Duration::from_mins(10)).await;
        yield Ok(BackendEvent::Resumed);
        std::future::pending::<()>().await;
    });
    let recording = session.recording().with_limit(Duration::from_secs(2));
    let run = recording.record(NewRun::new("s", "go"), stream).await.unwrap();
    assert!(matches!(run.error, Some(BackendError::Timeout { after, .. }) if after.as_secs() == 2));
    assert_eq!(run.result.response, "half an ans");
    assert_eq!(
        session.shape()[2..],
        [
            "1 message pause_turn \"half an ans\" cut by error",
            "2 error BACKEND_ERROR: timeout exceeded",
        ]
    );
}
