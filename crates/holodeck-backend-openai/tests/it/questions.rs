//! Tests that people are asked about all calls of a message at the same time.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendEvent, Ruling, TurnRequest,
};
use holodeck_testkit::{ModelServer, Reply, ScriptedTools};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use crate::setup::{agent_of, equipped};

/// A person who answers once both questions are asked, and approves this call only, or ends the turn.
struct Deliberate {
    both: Barrier,
    approves: &'static str,
    ends: bool,
}

#[async_trait]
impl Approver for Deliberate {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        None
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        self.both.wait().await;
        match ask.call_id == self.approves {
            true => ApprovalDecision::approve(),
            false if self.ends => ApprovalDecision::Terminate {
                reason: "enough".to_owned(),
            },
            false => ApprovalDecision::reject("not this one"),
        }
    }
}

/// The events about questions and results, and the texts with which the tool was called.
async fn turn(ends: bool) -> (Vec<&'static str>, Vec<String>) {
    let both = Reply::tool_call("c1", "echo", &json!({"text": "one"}));
    let both = both.and_tool_call("c2", "echo", r#"{"text": "two"}"#);
    let replies = [both].into_iter().chain((!ends).then(|| Reply::text("done")));
    let server = ModelServer::replies(replies);
    let tools = Arc::new(ScriptedTools::default());
    let backend = equipped(&agent_of(&server, ""), Arc::clone(&tools) as _);
    let person = Deliberate {
        both: Barrier::new(2),
        approves: "c2",
        ends,
    };
    let request = TurnRequest {
        approver: Some(Arc::new(person)),
        ..TurnRequest::new("go")
    };
    let events: Vec<_> = backend.start(request).collect().await;
    let kinds = events.iter().filter_map(|event| match event.as_ref().unwrap() {
        BackendEvent::Paused => Some("paused"),
        BackendEvent::Resumed => Some("resumed"),
        BackendEvent::ApprovalAsked(_) => Some("asked"),
        BackendEvent::ApprovalAnswered { .. } => Some("answered"),
        BackendEvent::ToolResult(_) => Some("result"),
        _ => None,
    });
    let called = tools.called();
    let texts = called
        .iter()
        .map(|call| call.arguments["text"].as_str().unwrap().to_owned());
    (kinds.collect(), texts.collect())
}

#[tokio::test]
async fn people_are_asked_about_all_calls_of_a_message_at_the_same_time() {
    let (kinds, called) = turn(false).await;
    assert_eq!(
        kinds,
        [
            "paused", "asked", "asked", "answered", "answered", "resumed", "result", "result"
        ]
    );
    assert_eq!(called, ["two"]);
}

#[tokio::test]
async fn no_call_of_a_message_runs_if_a_person_ends_the_turn() {
    let (kinds, called) = turn(true).await;
    assert_eq!(kinds[..3], ["paused", "asked", "asked"]);
    assert!(!kinds.contains(&"result"), "{kinds:?}");
    assert_eq!(called, [""; 0]);
}
