//! Thinking, in requests to the API.

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend as _, BackendEvent, Opening, Thinking, TurnRequest};
use holodeck_backend_claude::ClaudeBackend;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{ask, options};

#[tokio::test]
async fn a_budget_is_at_least_the_minimum_of_the_api() {
    for (thinking, expected) in [
        (Thinking::Off, json!("disabled")),
        (Thinking::Budget(1000), json!(1024)),
        (Thinking::Budget(5000), json!(5000)),
    ] {
        let server = AnthropicServer::replies([AnthropicReply::nothing()
            .and_thinking("Let me see.", "signed")
            .and_text("ok")]);
        let log = ask(options(&server).thinking(thinking), "hi").await;
        assert_eq!(log.result().response, "ok");
        assert_eq!(log.result().thinking.as_deref(), Some("Let me see."));
        let signed = BackendEvent::ThinkingEnd {
            signature: Some("signed".to_owned()),
        };
        assert!(log.events.contains(&signed), "{:?}", log.events);
        let requests = server.finish();
        let thinking_request = &requests[0].body()["thinking"];
        match thinking {
            Thinking::Off => assert!(
                thinking_request.is_null() || thinking_request["type"] == expected,
                "{thinking_request}"
            ),
            Thinking::Budget(_) => assert_eq!(
                (&thinking_request["type"], &thinking_request["budget_tokens"]),
                (&json!("enabled"), &expected)
            ),
        }
    }
}

#[tokio::test]
async fn newer_models_follow_the_effort() {
    for (effort, expected) in [(Some("low"), json!("low")), (None, Value::Null)] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let mut options = options(&server).model("claude-opus-5-5");
        if let Some(effort) = effort {
            options = options.effort(effort);
        }
        ask(options, "hi").await.result();
        let requests = server.finish();
        let body = requests[0].body();
        assert_eq!(body["thinking"]["type"], "adaptive");
        if effort.is_some() {
            assert_eq!(body["output_config"]["effort"], expected);
        } else {
            assert_ne!(body["output_config"]["effort"], "low");
        }
    }
}

#[tokio::test]
async fn a_turn_can_have_its_own_budget() {
    let server = AnthropicServer::replies((0..4).map(|_| AnthropicReply::text("ok")));
    let backend = ClaudeBackend::new(options(&server).thinking(Thinking::Budget(3000))).unwrap();
    let mut session = backend.open_session(Opening::default()).await.unwrap();
    for thinking in [None, Some(Thinking::Budget(5000)), Some(Thinking::Off), None] {
        let request = TurnRequest {
            thinking,
            ..TurnRequest::new("hi")
        };
        let events: Vec<_> = session.turn(request).collect().await;
        assert!(
            matches!(events.last(), Some(Ok(BackendEvent::End(_)))),
            "{events:?}"
        );
    }
    session.close().await.unwrap();
    let budgets: Vec<Value> = server
        .finish()
        .iter()
        .map(|request| request.body()["thinking"]["budget_tokens"].clone())
        .collect();
    assert_eq!(budgets, [json!(3000), json!(5000), Value::Null, json!(3000)]);
}
