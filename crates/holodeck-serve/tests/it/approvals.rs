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
    asking_about(&[""]).await
}

/// One whose agent calls `echo` for each of these words after the message, at the same time.
async fn asking_about(words: &'static [&'static str]) -> (World, Arc<ScriptedTools>) {
    let tools = Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(move |asked| {
        let calls = words.iter().map(|word| ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": format!("{}{word}", asked.message)}),
            call_id: format!("call-{}{word}", asked.index),
            provider_fields: None,
        });
        ScriptedTurn::nothing().and_call(calls.collect()).and_text("done")
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
        self.questions(1).await.remove(0)
    }

    /// The questions of alice's conversation, once there are so many.
    async fn questions(&self, count: usize) -> Vec<Value> {
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
            let questions = waiting["approvals"].as_array().unwrap();
            if questions.len() == count {
                return questions.clone();
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

/// The arguments of the calls of the tool, in the order of the letters.
fn texts(tools: &ScriptedTools) -> Vec<String> {
    let called = tools.called();
    let texts = called.iter().map(|call| call.arguments["text"].as_str().unwrap());
    let mut texts: Vec<_> = texts.map(str::to_owned).collect();
    texts.sort_unstable();
    texts
}

#[tokio::test]
async fn the_questions_of_one_message_are_asked_together_and_answered_one_by_one_in_any_order() {
    let (world, tools) = asking_about(&[" a", " b", " c"]).await;
    let questions = world.questions(3).await;
    // No call runs before the last answer.
    let answers = [
        (2, json!({"decision": "approve"})),
        (0, json!({"decision": "reject", "reason": "not this one"})),
        (
            1,
            json!({"decision": "modify", "modifiedArgs": {"text": "changed"}}),
        ),
    ];
    let mut left = questions.len();
    for (at, answer) in answers {
        assert_eq!(texts(&tools), [""; 0]);
        assert_eq!(world.answer("alice", &questions[at], answer).await.status, 200);
        left -= 1;
        let path = "/v1/approvals?sessionId=s";
        let waiting = world.send_as("alice", Method::GET, path, json!({})).await.json();
        assert_eq!(waiting["approvals"].as_array().unwrap().len(), left);
    }
    world.service.drain().await;
    assert_eq!(texts(&tools), ["changed", "hello c"]);
    // A client gets the first question only with the others.
    let stored = world.stored("s").await;
    let kinds: Vec<_> = stored
        .iter()
        .map(|(_, json)| serde_json::from_str::<Value>(json).unwrap())
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .filter(|kind| kind.starts_with("approval"))
        .collect();
    assert_eq!(kinds[..3], ["approval_requested"; 3]);
    assert_eq!(kinds[3..], ["approval_resolved"; 3]);
}

#[tokio::test]
async fn an_approval_for_the_session_answers_the_other_questions_about_the_tool() {
    let (world, tools) = asking_about(&[" a", " b"]).await;
    let questions = world.questions(2).await;
    let answer = json!({"decision": "approve", "scope": "session"});
    assert_eq!(world.answer("alice", &questions[1], answer).await.status, 200);
    world.service.drain().await;
    assert_eq!(texts(&tools), ["hello a", "hello b"]);
}

#[tokio::test]
async fn a_decision_to_end_the_run_takes_the_other_questions_back() {
    let (world, tools) = asking_about(&[" a", " b"]).await;
    let questions = world.questions(2).await;
    let answer = json!({"decision": "terminate", "reason": "enough"});
    assert_eq!(world.answer("alice", &questions[0], answer).await.status, 200);
    world.service.drain().await;
    assert_eq!(texts(&tools), [""; 0]);
    let late = json!({"decision": "approve"});
    let late = world.answer("alice", &questions[1], late).await;
    assert_eq!(late.problem(), (409, "ALREADY_RESOLVED".to_owned()));
}
