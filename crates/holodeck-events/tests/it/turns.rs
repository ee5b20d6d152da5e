//! Tests that the turns of a conversation are read back from its events, whatever came of them.

use holodeck_backend_api::{ApprovalDecision, BackendError, Outcome, StopReason};
use holodeck_events::recorded_turns;
use holodeck_model::events::{AgentEvent, EventBody};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    backend_events::{answer, answered, ask, broken, call, nested, result, stop, text, thinking},
    session::TestSession,
};

/// A conversation of two messages: a tool with a nested agent and a decision, then a failure.
fn session() -> TestSession {
    let mut session = TestSession::new();
    session.run(
        "how long?",
        answered([
            thinking("hm"),
            call("a", "f"),
            call("b", "g"),
            stop(StopReason::ToolUse, "msg_1"),
            ask("a", "f"),
            answer("a", ApprovalDecision::reject("no")),
            nested("b", call("n", "h")),
            nested("b", result("n", "h", "inside")),
            result("b", "g", "30"),
            text("30 days"),
            stop(StopReason::EndTurn, "msg_2"),
        ]),
    );
    session.run("and now?", broken([text("let me")], BackendError::Cancelled));
    session
}

#[test]
fn a_turn_has_the_result_of_its_run_and_the_steps_beside_it() {
    let session = session();
    let events = session.events();
    let turns = recorded_turns(&events);
    let [first, second] = turns.as_slice() else {
        panic!("{turns:?}");
    };
    assert_eq!(
        (&*first.message.content, &*second.message.content),
        ("how long?", "and now?")
    );
    assert_ne!(first.run_id, second.run_id);
    assert!(first.is_over && second.is_over);
    assert_eq!(first.result.response, "30 days");
    assert_eq!(first.result.thinking.as_deref(), Some("hm"));
    assert_eq!(first.result.outcome, Outcome::Completed);
    assert_ne!(second.result.outcome, Outcome::Completed);
    assert_eq!(second.result.response, "let me");
    assert_eq!(
        serde_json::to_value(&first.trajectory).unwrap(),
        json!([
            {"approval": {"call_id": "a", "decision": {"reject": {"reason": "no"}}, "by": "person"}},
            {"parent_call_id": "b", "tool_call": {"name": "h", "arguments": {"q": "n"}, "call_id": "n"}},
            {"parent_call_id": "b", "tool_result":
                {"call_id": "n", "name": "h", "result": "inside", "is_error": false, "duration_ms": 5}},
        ])
    );
    assert_eq!(first.unanswered, []);
}

#[test]
fn a_turn_that_is_not_over_has_what_arrived_and_the_open_questions() {
    let events = session().events();
    let cut = |body: fn(&EventBody) -> bool| -> Vec<AgentEvent> {
        let place = events.iter().position(|event| body(&event.body)).unwrap();
        events[..=place].to_vec()
    };
    let asked = recorded_turns(&cut(|body| matches!(body, EventBody::ApprovalRequested(_))));
    let [turn] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert!(!turn.is_over);
    let tools: Vec<&str> = turn.unanswered.iter().map(|asked| &*asked.tool_name).collect();
    assert_eq!(tools, ["f"]);
    assert_eq!(turn.result.tool_calls.len(), 2);
    assert_eq!(turn.result.response, "");
    let answered = recorded_turns(&cut(|body| matches!(body, EventBody::Message(_))));
    let [turn] = answered.as_slice() else {
        panic!("{answered:?}")
    };
    assert!(!turn.is_over);
    assert_eq!(turn.result.response, "30 days");
    assert_ne!(turn.result.outcome, Outcome::Completed);
}

#[test]
fn no_message_is_no_turn() {
    let events = session().events();
    assert_eq!(recorded_turns(&events[..0]), []);
    let later: Vec<AgentEvent> = events[1..]
        .iter()
        .take_while(|event| !matches!(event.body, EventBody::UserMessageConfirmed(_)))
        .cloned()
        .collect();
    assert!(!later.is_empty());
    assert_eq!(recorded_turns(&later), []);
}
