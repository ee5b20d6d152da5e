//! Tests of the JSON form of every event against its schema and the contract's table.

use holodeck_backend_api::{ApprovalDecision, BackendError, StopReason};
use holodeck_events::StoredEvent;
use holodeck_model::events::{AgentEvent, EventBody, EventClass, SessionStart, event_schema};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Map, Value};

use crate::{
    backend_events::{answer, answered, ask, broken, call, result, stop, text, thinking, thought, usage},
    session::{TestSession, block_on, check},
};

/// A session in which every type occurs.
fn everything() -> TestSession {
    let mut session = TestSession::new();
    let start = SessionStart {
        agent_name: Some("helper".to_owned()),
        model: Some("m-1".to_owned()),
        backend: Some("scripted".to_owned()),
        forked_from: None,
    };
    block_on(session.recording().session("s", None, start.clone())).unwrap();
    block_on(session.recording().session("s", None, start)).unwrap();
    session.run(
        "how long?",
        answered([
            thinking("hm"),
            thought("sig"),
            text("let me look"),
            call("toolu_1", "create_report"),
            usage(10, 5),
            stop(StopReason::ToolUse, "msg_1"),
            ask("toolu_1", "create_report"),
            answer("toolu_1", ApprovalDecision::approve()),
            result("toolu_1", "create_report", "30"),
            text("30 days"),
            usage(20, 5),
            stop(StopReason::EndTurn, "msg_2"),
        ]),
    );
    session.run("and now?", broken([text("well")], BackendError::ended_early()));
    session
}

#[test]
fn every_type_as_it_is_sent() {
    let stored = everything().stored();
    let lines: Vec<_> = stored.iter().map(StoredEvent::json).collect();
    assert_snapshot!(lines.join("\n"));
}

/// A change here is a change for every client: fields may be added, and nothing else may change.
#[test]
fn the_schema_of_every_type() {
    let schema = event_schema();
    let mut outline = Vec::new();
    for kind in schema["oneOf"].as_array().unwrap() {
        outline.push(format!("{}:", kind["title"].as_str().unwrap()));
        outline.extend(fields(kind));
    }
    for (name, shared) in schema["$defs"].as_object().unwrap() {
        outline.push(format!("{name}:"));
        outline.extend(fields(shared));
    }
    assert_snapshot!(outline.join("\n"));
}

/// A line per field of an object, with `!` if it is required; or all of another schema. Without what explains it.
fn fields(schema: &Value) -> Vec<String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return vec![format!("  {}", unexplained(schema.clone()))];
    };
    let line = |(name, field): (&String, &Value)| {
        let required = schema["required"]
            .as_array()
            .is_some_and(|all| all.contains(&name.as_str().into()));
        let mark = if required { "!" } else { "" };
        format!("  {name}{mark}: {}", unexplained(field.clone()))
    };
    properties.iter().map(line).collect()
}

fn unexplained(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            fields.shift_remove("description");
            for field in fields.values_mut() {
                *field = unexplained(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = unexplained(item.take());
            }
        }
        _ => {}
    }
    schema
}

#[test]
fn every_event_satisfies_its_schema_and_no_other() {
    let schema = event_schema();
    let one_type = jsonschema::validator_for(&schema).unwrap();
    for stored in everything().stored() {
        let event: Value = serde_json::from_str(stored.json()).unwrap();
        one_type.validate(&event).unwrap();
        // Every field is described, and each one that is required is needed.
        let kind = stored.event().body.kind();
        let types = schema["oneOf"].as_array().unwrap();
        let own = types.iter().find(|schema| schema["title"] == kind).unwrap();
        for field in event.as_object().unwrap().keys() {
            let described = [own, &schema["$defs"]["EventMeta"]]
                .iter()
                .any(|schema| schema["properties"].get(field).is_some());
            assert!(described, "`{field}` of `{kind}`");
        }
        let (_, fields) = row(kind);
        for field in fields {
            let mut without = event.clone();
            without.as_object_mut().unwrap().shift_remove(*field);
            assert!(!one_type.is_valid(&without), "`{kind}` without `{field}`");
        }
        let mut renumbered = event.clone();
        renumbered["sequenceNumber"] = 0.into();
        let is_content = stored.class() == EventClass::Stored;
        assert_eq!(one_type.is_valid(&renumbered), is_content, "{kind}");
    }
}

#[test]
fn every_event_has_the_fields_of_its_row() {
    let session = everything();
    let mut kinds = Vec::new();
    for stored in session.stored() {
        let event: Map<String, Value> = serde_json::from_str(stored.json()).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        assert!(event.keys().all(|key| is_camel_case(key)), "{kind}");
        assert!(is_time(event["timestamp"].as_str().unwrap()), "{kind}");
        let id: uuid::Uuid = event["eventId"].as_str().unwrap().parse().unwrap();
        assert_eq!(id.get_version_num(), 4);
        let (state, required) = row(&kind);
        assert_eq!(event["persistenceState"], state, "{kind}");
        for field in required.iter().chain(&["sessionId", "eventIndex"]) {
            assert!(event.contains_key(*field), "`{kind}` has no `{field}`");
        }
        assert_eq!(
            event.contains_key("sequenceNumber"),
            state == "persisted",
            "{kind}"
        );
        assert_eq!(event.contains_key("runId"), kind != "session_start");
        kinds.push(kind);
    }
    for kind in EventBody::KINDS {
        assert!(kinds.iter().any(|own| own == kind), "`{kind}` does not occur");
    }
}

/// The contract's table: the state on the wire, and the required fields.
fn row(kind: &str) -> (&'static str, &'static [&'static str]) {
    match kind {
        "session_start" => ("transient", &[]),
        "user_message_confirmed" => ("persisted", &["messageId", "content"]),
        "thinking_chunk" | "thinking_complete" | "message_chunk" => ("transient", &["content", "blockIndex"]),
        "thinking" => ("persisted", &["content", "messageId"]),
        "message" => ("persisted", &["content", "messageId", "role", "stopReason"]),
        "tool_use" => ("persisted", &["toolUseId", "toolName", "args"]),
        "tool_result" => ("persisted", &["toolUseId", "toolName", "result", "success"]),
        "approval_requested" => ("pending", &["approvalId", "toolName", "description"]),
        "approval_resolved" => ("transient", &["approvalId", "approved"]),
        "complete" => ("transient", &["reason"]),
        "error" => ("persisted", &["error", "code"]),
        other => panic!("no row for `{other}`"),
    }
}

fn is_camel_case(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_lowercase())
        && key.chars().all(|c| c.is_ascii_alphanumeric())
}

/// `2026-11-21T20:00:00.120Z`.
fn is_time(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "0000-00-00T00:00:00.000Z"
}

#[test]
fn what_is_read_back_is_what_was_stored() {
    for stored in everything().stored() {
        let read: AgentEvent = serde_json::from_str(stored.json()).unwrap();
        assert_eq!(&read, stored.event());
        assert_eq!(serde_json::to_string(&read).unwrap(), stored.json());
    }
}

#[test]
fn a_recording_of_a_later_version_is_checked_and_written_again() {
    let mut events = Vec::new();
    for stored in everything().stored() {
        let mut event: Map<String, Value> = serde_json::from_str(stored.json()).unwrap();
        event.insert("later".to_owned(), Value::Bool(true));
        if event["type"] == "thinking" {
            event.insert("type".to_owned(), "pondering".into());
        }
        let read: AgentEvent = serde_json::from_value(Value::Object(event.clone())).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), Value::Object(event));
        events.push(read);
    }
    assert_eq!(check(holodeck_events::View::Live, &events), []);
}
