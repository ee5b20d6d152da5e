//! Tests that turns recorded by test runs can begin a conversation.

use std::sync::Arc;

use holodeck_chat::{
    PastTurn, ServiceOptions,
    api::{ExecutionResult, Outcome, ToolCall, ToolResult},
    events::MemoryStore,
    model::{CallDetails, Redactor},
};
use holodeck_testkit::ScriptedTurn;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::World;

const SECRET: &str = "hunter2-is-long";

fn call(id: &str) -> ToolCall {
    ToolCall {
        name: "look".to_owned(),
        arguments: json!({"password": SECRET}),
        call_id: id.to_owned(),
        provider_fields: None,
    }
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult {
        call_id: id.to_owned(),
        name: "look".to_owned(),
        result: text.to_owned(),
        is_error: false,
        duration_ms: None,
        details: CallDetails::default(),
    }
}

/// Turns as a test recorded them: an answer after two calls, of which one has no result, and a turn that failed.
#[tokio::test]
async fn turns_that_were_recorded_elsewhere_begin_a_conversation() {
    let options = ServiceOptions {
        redactor: Some(Arc::new(Redactor::new([SECRET.to_owned()]))),
        ..ServiceOptions::default()
    };
    let world = World::with(Arc::new(MemoryStore::new()), options, |_| {
        ScriptedTurn::text("go on")
    });
    let turns = vec![
        PastTurn {
            message: format!("one {SECRET}"),
            result: ExecutionResult {
                response: "It is x.".to_owned(),
                tool_calls: vec![call("1"), call("2")],
                tool_results: vec![result("1", "found")],
                num_turns: 3,
                ..ExecutionResult::default()
            },
        },
        PastTurn {
            message: "lost".to_owned(),
            result: ExecutionResult {
                outcome: Outcome::TimedOut,
                ..ExecutionResult::default()
            },
        },
    ];
    world.service.import_turns("s", None, turns).await.unwrap();
    let expected = [
        "session_start",
        "user_message_confirmed",
        "tool_use",
        "tool_result",
        "tool_use",
        "tool_result",
        "message",
        "complete",
        "user_message_confirmed",
        "error",
    ];
    assert_eq!(world.kinds().await, expected);
    assert_eq!(world.say("two").await, "go on");
    let history = world.history();
    assert_eq!(history[..3], ["user: one ***", "call: look", "result: found"]);
    assert_eq!(history.last().unwrap(), "agent: It is x.");
    for event in world.events().await {
        assert!(!event.json().contains(SECRET), "{}", event.json());
    }
    assert_eq!(world.service.contract_violations(), 0);
    // A conversation that exists is not continued in this way.
    assert!(world.service.import_turns("s", None, Vec::new()).await.is_err());
}
