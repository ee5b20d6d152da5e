//! A conversation is opened again from its log.

use holodeck_backend_api::{
    ApprovalDecision, BackendError, BackendEvent, HistoryItem, ProviderFields, StopReason,
};
use holodeck_events::{MemoryStore, NewRun, RunRecorder, execution_result, history};
use insta::assert_snapshot;
use serde_json::json;

use crate::{
    backend_events::{
        answer, answered, ask, broken, call, failed_result, nested, result, stop, text, thinking,
    },
    session::{TestSession, block_on, sources},
};

/// One line per item.
fn outline(session: &TestSession) -> String {
    let lines = history(&session.events()).into_iter().map(|item| match item {
        HistoryItem::User { text } => format!("user {text}"),
        HistoryItem::Assistant { text } => format!("assistant {text}"),
        HistoryItem::Partial { text } => format!("partial {text}"),
        HistoryItem::Call(call) => format!("call {} {} {}", call.call_id, call.name, call.arguments),
        HistoryItem::Result(result) => {
            format!("result {} {} {}", result.call_id, result.is_error, result.result)
        }
        _ => "?".to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn texts_calls_and_results_are_in_their_order() {
    let mut session = TestSession::new();
    session.run(
        "how long?",
        answered([
            thinking("hm"),
            text("let me "),
            text("look"),
            call("a", "f"),
            call("b", "g"),
            stop(StopReason::ToolUse, "msg_1"),
            ask("a", "f"),
            answer("a", ApprovalDecision::reject("no")),
            nested("b", text("inner")),
            nested("b", call("n", "h")),
            nested("b", stop(StopReason::ToolUse, "n_1")),
            nested("b", result("n", "h", "inside")),
            result("b", "g", "30"),
            failed_result("a", "f", "no"),
            text("30 days"),
            stop(StopReason::EndTurn, "msg_2"),
        ]),
    );
    session.run(
        "thanks",
        answered([text("welcome"), stop(StopReason::EndTurn, "msg_3")]),
    );
    assert_snapshot!(outline(&session), @r#"
    user how long?
    assistant let me look
    call a f {"q":"a"}
    call b g {"q":"b"}
    result a true no
    result b false 30
    assistant 30 days
    user thanks
    assistant welcome
    "#);
}

#[test]
fn of_a_stopped_run_what_had_arrived_remains() {
    let mut session = TestSession::new();
    let emitted = [
        text("let me look"),
        call("a", "f"),
        call("b", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("b", "f", "1"),
        text("so"),
    ];
    session.run("one", broken(emitted.clone(), BackendError::Cancelled));
    // While the tools run.
    let running = emitted.into_iter().take(4);
    session.run("two", broken(running, BackendError::Cancelled));
    session.run("three", broken([], BackendError::Cancelled));
    assert_snapshot!(outline(&session), @r#"
    user one
    assistant let me look
    call a f {"q":"a"}
    call b f {"q":"b"}
    result a true the turn was interrupted before this call ended
    result b false 1
    partial so
    user two
    assistant let me look
    call a f {"q":"a"}
    call b f {"q":"b"}
    result a true the turn was interrupted before this call ended
    result b true the turn was interrupted before this call ended
    "#);
}

#[test]
fn of_a_run_whose_process_ended_what_had_arrived_remains() {
    let session = TestSession::new();
    let (clock, ids) = sources();
    for pieces in [&["half ", "a sentence"][..], &[]] {
        let (mut run, first) = RunRecorder::open(NewRun::new("s", "go"), clock.clone(), ids.clone());
        let store: &MemoryStore = &session.store;
        block_on(holodeck_events::EventStore::open_run(store, first)).unwrap();
        for piece in pieces {
            let drafts = run.observe(&text(piece));
            block_on(holodeck_events::EventStore::append(store, drafts)).unwrap();
        }
        holodeck_events::EventStore::abandon(store, "s", run.run_id());
    }
    assert_snapshot!(outline(&session), @"
    user go
    partial half a sentence
    ");
}

#[test]
fn a_failed_run_is_not_part_of_the_conversation() {
    let mut session = TestSession::new();
    session.run("one", broken([], BackendError::ended_early()));
    session.run("two", broken([text("well")], BackendError::ended_early()));
    session.run(
        "three",
        answered([text("  "), stop(StopReason::EndTurn, "msg_1")]),
    );
    let limit = [call("a", "f"), stop(StopReason::ToolUse, "msg_2")];
    session.run(
        "four",
        crate::backend_events::ended(limit, holodeck_backend_api::Outcome::MaxTurns),
    );
    session.run(
        "five",
        answered([text("yes"), stop(StopReason::EndTurn, "msg_3")]),
    );
    assert_snapshot!(outline(&session), @"
    user five
    assistant yes
    ");
}

#[test]
fn a_message_that_was_cut_off_and_asked_for_again_is_not_part_of_the_conversation() {
    let mut session = TestSession::new();
    let emitted = [
        text("it is pro"),
        stop(StopReason::aborted(), "msg_1"),
        text("it is probably"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    session.run("go", answered(emitted));
    assert_snapshot!(outline(&session), @"
    user go
    assistant it is probably
    ");
}

#[test]
fn fields_that_go_back_with_a_call_are_part_of_the_history_and_of_no_result() {
    let fields = ProviderFields {
        model: "m".to_owned(),
        message: serde_json::from_value(json!({"reasoning_content": "hm"})).unwrap(),
        call: serde_json::from_value(json!({"extra_content": {"signature": "c2ln"}})).unwrap(),
    };
    let BackendEvent::ToolCall(mut with_fields) = call("a", "f") else {
        panic!("no call")
    };
    with_fields.provider_fields = Some(Box::new(fields.clone()));
    let mut session = TestSession::new();
    session.run(
        "go",
        answered([
            BackendEvent::ToolCall(with_fields),
            stop(StopReason::ToolUse, "msg_1"),
            result("a", "f", "30"),
            text("30 days"),
            stop(StopReason::EndTurn, "msg_2"),
        ]),
    );
    let events = session.events();
    let items = history(&events);
    let kept = items.iter().find_map(|item| match item {
        HistoryItem::Call(call) => call.provider_fields.as_deref(),
        _ => None,
    });
    assert_eq!(kept, Some(&fields));
    let result = execution_result(&events).unwrap();
    assert!(
        result
            .tool_calls
            .iter()
            .all(|call| call.provider_fields.is_none())
    );
}
