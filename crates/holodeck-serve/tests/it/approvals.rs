//! Tests that questions about calls are answered once over HTTP, and only by their owner.

use std::sync::Arc;

use holodeck_serve::{ServeOptions, conversation::api::ToolCall};
use holodeck_testkit::{ScriptedBackend, ScriptedTools, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Setup, World, two_users};

/// A server whose agent calls `echo` in each turn.
async fn asking() -> (World, Arc<ScriptedTools>) {
    let tools = Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(|asked| {
        let call = ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": asked.message}),
            call_id: format!("call-{}", asked.index),
            provider_fields: None,
        };
        ScriptedTurn::nothing().and_call(vec![call]).and_text("done")
    });
    let setup = Setup {
        backend: Some(backend.with_tools(Arc::clone(&tools) as Arc<_>)),
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    (World::with(setup, |_| unreachable!()).await, tools)
}

impl World {
    /// The question of alice's conversation.
    async fn question(&self) -> Value {
        self.send_as(
            "alice",
            Method::POST,
            "/v1/sessions/s/messages",
            json!({"message": "hello"}),
        )
        .await;
        loop {
            let waiting = self
                .send_as("alice", Method::GET, "/v1/approvals?sessionId=s", json!({}))
                .await
                .json();
            if let Some(question) = waiting["approvals"].get(0) {
                return question.clone();
            }
            tokio::task::yield_now().await;
        }
    }

    async fn answer(&self, user: &str, question: &Value, body: Value) -> crate::world::Reply {
        let path = format!("/v1/approvals/{}", question["approvalId"].as_str().unwrap());
        self.send_as(user, Method::POST, &path, body).await
    }
}

#[tokio::test]
async fn a_question_is_answered_once_by_its_owner() {
    let (world, tools) = asking().await;
    let question = world.question().await;
    assert_eq!(
        (&question["toolName"], &question["args"]),
        (&json!("echo"), &json!({"text": "hello"}))
    );
    let session = world
        .send_as("alice", Method::GET, "/v1/sessions/s", json!({}))
        .await
        .json();
    assert_eq!(session["pendingApprovals"], json!([question]));
    for refused in [
        json!({"decision": "modify"}),
        json!({"decision": "approve", "modifiedArgs": {}}),
        json!({"decision": "reject", "scope": "always"}),
        json!({"decision": "expire"}),
        json!({"decision": "approve", "userId": "alice"}),
        json!({}),
    ] {
        assert_eq!(world.answer("alice", &question, refused).await.problem().0, 400);
    }
    let approve = json!({"decision": "approve"});
    let foreign = world.answer("bob", &question, approve.clone()).await;
    assert_eq!(foreign.problem(), (404, "APPROVAL_NOT_FOUND".to_owned()));
    assert_eq!(tools.called().len(), 0);
    let answered = world.answer("alice", &question, approve.clone()).await;
    assert_eq!(answered.json()["approved"], true);
    let again = world.answer("alice", &question, approve).await;
    assert_eq!(again.text, answered.text);
    let other = world
        .answer("alice", &question, json!({"decision": "reject"}))
        .await;
    assert_eq!(other.problem(), (409, "ALREADY_RESOLVED".to_owned()));
    world.service.drain().await;
    assert_eq!(tools.called().len(), 1);
}

#[tokio::test]
async fn a_rejected_call_does_not_run() {
    let (world, tools) = asking().await;
    let question = world.question().await;
    world
        .answer(
            "alice",
            &question,
            json!({"decision": "reject", "reason": "not today"}),
        )
        .await;
    world.service.drain().await;
    assert_eq!(tools.called().len(), 0);
    let stored = world.stored("s").await;
    assert!(
        stored
            .iter()
            .any(|(_, json)| json.contains("not today") && json.contains(r#""success":false"#))
    );
}

#[tokio::test]
async fn an_approval_for_the_session_is_not_asked_again() {
    let (world, tools) = asking().await;
    let question = world.question().await;
    world
        .answer(
            "alice",
            &question,
            json!({"decision": "approve", "scope": "session"}),
        )
        .await;
    world.service.drain().await;
    let path = "/v1/sessions/s/messages?wait=true";
    let second = world
        .send_as("alice", Method::POST, path, json!({"message": "again"}))
        .await;
    assert_eq!(second.status, 200);
    assert_eq!(tools.called().len(), 2);
}
