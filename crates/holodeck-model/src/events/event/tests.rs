//! Tests that events have the form of the contract and lose nothing when they are read and written again.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::events::{CompleteReason, PersistenceState, StopReason};

/// An event with these fields and the common ones.
fn event(fields: &Value) -> Value {
    let mut event = json!({
        "timestamp": "2026-11-21T20:00:00.120Z",
        "eventId": "0b0e5a52-7d3c-4a53-9b3b-6a3c6d9f0a11",
        "persistenceState": "persisted",
        "sessionId": "s-1",
    });
    let (Value::Object(all), Value::Object(own)) = (&mut event, fields) else {
        panic!("not objects");
    };
    all.extend(own.clone());
    event
}

fn read(value: &Value) -> AgentEvent {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn a_message_has_the_form_of_the_contract() {
    let text = concat!(
        r#"{"type":"message","timestamp":"2026-11-21T20:00:00.120Z","eventId":"0b0e5a52-7d3c-4a53-9b3b-6a3c6d9f0a11","#,
        r#""persistenceState":"persisted","eventIndex":41,"sequenceNumber":7,"sessionId":"s-1","runId":"r-9","turn":2,"#,
        r#""messageId":"msg_01","role":"assistant","content":"Done.","stopReason":"end_turn"}"#,
    );
    let event: AgentEvent = serde_json::from_str(text).unwrap();
    let EventBody::Message(message) = &event.body else {
        panic!("{event:?}");
    };
    assert_eq!(message.stop_reason, StopReason::EndTurn);
    assert_eq!(event.meta.sequence_number, Some(7));
    assert!(event.extra.is_empty());
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
}

#[test]
fn unknown_data_is_written_back() {
    for value in [
        event(&json!({"type": "weather", "content": 3, "sequenceNumber": 4, "nested": {"a": [1, null]}})),
        event(
            &json!({"type": "message_chunk", "content": "x", "blockIndex": 0, "citations": [{"file": "a"}]}),
        ),
        event(&json!({"type": "complete", "reason": "bored", "costUsd": 0.5, "usage": null})),
        event(
            &json!({"type": "tool_result", "toolUseId": "t", "toolName": "f", "result": {"n": 1}, "success": true,
                      "args": {"q": 1}, "synthetic": false}),
        ),
    ] {
        assert_eq!(serde_json::to_value(read(&value)).unwrap(), value);
    }
}

#[test]
fn stored_names_and_states_of_the_older_contract_are_read() {
    let stored = read(&event(
        &json!({"type": "user_message_sent", "messageId": "m", "content": "hi",
                                     "persistenceState": "queued"}),
    ));
    assert_eq!(stored.body.kind(), "user_message_confirmed");
    assert_eq!(stored.meta.persistence_state, PersistenceState::Queued);
    let ended = read(&event(&json!({"type": "session_ended", "reason": "success"})));
    assert!(
        matches!(ended.body, EventBody::Complete(complete) if complete.reason == CompleteReason::Success)
    );
}

#[test]
fn times_are_written_with_milliseconds() {
    for (given, written) in [
        ("2026-11-21T20:00:00Z", "2026-11-21T20:00:00.000Z"),
        ("2026-11-21T21:00:00.9999+01:00", "2026-11-21T20:00:00.999Z"),
    ] {
        let value = event(&json!({"type": "complete", "reason": "success", "timestamp": given}));
        let again = serde_json::to_value(read(&value)).unwrap();
        assert_eq!(again["timestamp"], written);
    }
}

#[test]
fn an_event_without_its_required_fields_is_rejected() {
    for kind in EventBody::KINDS.iter().filter(|kind| **kind != "session_start") {
        let bare = event(&json!({ "type": kind }));
        assert!(serde_json::from_value::<AgentEvent>(bare).is_err(), "{kind}");
    }
    assert!(serde_json::from_value::<AgentEvent>(json!({"type": "complete", "reason": "success"})).is_err());
}
