//! Thinking before answering, as the API is asked for it.

use holodeck_backend_api::BackendEvent;
use holodeck_backend_claude::Thinking;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{ask, options};

#[tokio::test]
async fn a_budget_is_at_least_the_least_the_api_takes() {
    for (thinking, sent) in [
        (Thinking::Disabled, json!("disabled")),
        (Thinking::Budget(1000), json!(1024)),
        (Thinking::Budget(5000), json!(5000)),
    ] {
        let server = AnthropicServer::replies([AnthropicReply::nothing()
            .and_thinking("Let me see.", "signed")
            .and_text("ok")]);
        let heard = ask(options(&server).thinking(thinking), "hi").await;
        assert_eq!(heard.result().response, "ok");
        assert_eq!(heard.result().thinking.as_deref(), Some("Let me see."));
        let signed = BackendEvent::ThinkingEnd {
            signature: Some("signed".to_owned()),
        };
        assert!(heard.events.contains(&signed), "{:?}", heard.events);
        let requests = server.finish();
        let asked = &requests[0].body()["thinking"];
        match thinking {
            Thinking::Disabled => assert!(asked.is_null() || asked["type"] == sent, "{asked}"),
            _ => assert_eq!(
                (&asked["type"], &asked["budget_tokens"]),
                (&json!("enabled"), &sent)
            ),
        }
    }
}

#[tokio::test]
async fn newer_models_follow_the_effort() {
    for (effort, sent) in [(Some("low"), json!("low")), (None, Value::Null)] {
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
            assert_eq!(body["output_config"]["effort"], sent);
        } else {
            assert_ne!(body["output_config"]["effort"], "low");
        }
    }
}
