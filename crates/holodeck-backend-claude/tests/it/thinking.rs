//! Thinking, in requests to the API.

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend as _, BackendEvent, Opening, Outcome, Thinking, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, Reuse, ThinkingOff};
use holodeck_model::{ClaudeConfig, ClaudeModels};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{ask, options, turn};

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

/// The parts of a request about reasoning and length.
fn said(body: &Value) -> Value {
    json!({
        "thinking": body["thinking"]["type"], "budget": body["thinking"]["budget_tokens"],
        "effort": body["output_config"]["effort"], "max": body["max_tokens"], "model": body["model"],
    })
}

#[tokio::test]
async fn a_model_that_always_thinks_is_told_not_to() {
    for (how, expected) in [
        (ThinkingOff::OfModel, json!("adaptive")),
        (ThinkingOff::OfProcess, Value::Null),
    ] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let options = options(&server)
            .model("claude-opus-5-5")
            .thinking(Thinking::Off)
            .thinking_off(how);
        ask(options, "hi").await.result();
        assert_eq!(server.finish()[0].body()["thinking"]["type"], expected, "{how:?}");
    }
}

#[tokio::test]
async fn the_limit_of_an_answer_and_beta_features_are_passed_on() {
    let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
    let options = options(&server)
        .thinking(Thinking::Off)
        .max_tokens(777)
        .betas(["context-1m-2025-08-07", "my-own-2026-01-01"]);
    ask(options, "hi").await.result();
    let requests = server.finish();
    assert_eq!(requests[0].body()["max_tokens"], 777);
    let betas: Vec<&str> = requests[0].header("anthropic-beta").unwrap().split(',').collect();
    for beta in ["context-1m-2025-08-07", "my-own-2026-01-01"] {
        assert!(betas.contains(&beta), "{betas:?}");
    }
}

/// The CLI lets the model continue an answer that reached the limit: all of it is the answer.
#[tokio::test]
async fn an_answer_that_is_continued_after_its_limit_is_whole() {
    let server = AnthropicServer::replies([
        AnthropicReply::text("The first half, ").stop_reason("max_tokens"),
        AnthropicReply::text("and the second."),
    ]);
    let log = ask(options(&server).thinking(Thinking::Off).max_tokens(50), "hi").await;
    assert_eq!(log.result().response, "The first half, and the second.");
    assert_eq!(log.result().truncated_by, None);
    server.finish();
    let server = AnthropicServer::answering(|_| AnthropicReply::text("and on").stop_reason("max_tokens"));
    let log = ask(options(&server).thinking(Thinking::Off).max_tokens(50), "hi").await;
    let Outcome::Failed { reason } = &log.result().outcome else {
        panic!("{:?}", log.result());
    };
    assert!(
        reason.contains("the answer is longer than `max_tokens` (50)"),
        "{reason}"
    );
    server.finish();
}

/// The settings that are tried on each model.
const SETTINGS: [&str; 4] = [
    "{}",
    r#"{"effort": "low"}"#,
    r#"{"effort": "max"}"#,
    r#"{"extended_thinking": {"enabled": true, "budget_tokens": 5000}}"#,
];

/// Compares what the list of models says with what the CLI sends.
async fn check_model(name: &str) {
    let models = ClaudeModels::embedded();
    for settings in SETTINGS {
        let claude: ClaudeConfig = serde_json::from_str(settings).unwrap();
        let reasoning = models.reasoning(name, &claude);
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let mut options = options(&server).model(name).max_tokens(999_999);
        options = options.thinking(match reasoning.budget {
            _ if reasoning.off => Some(Thinking::Off),
            budget => budget.map(Thinking::Budget),
        });
        if reasoning.off_for_all {
            options = options.thinking_off(ThinkingOff::OfProcess);
        }
        if let Some(level) = reasoning.effort {
            options = options.effort(level.as_str());
        }
        ask(options, "hi").await.result();
        let said = said(server.finish()[0].body());
        let model = models.find(name).unwrap();
        let other = model.replaced_by();
        let model = other.map_or(model, |other| models.find(other).unwrap());
        assert_eq!(said["model"], other.unwrap_or(name), "{name} {settings}");
        assert_eq!(said["max"], json!(model.output()), "{name} {settings}");
        let thinking = match (reasoning.off, reasoning.budget) {
            (true, _) => vec![Value::Null, json!("disabled")],
            (false, Some(_)) => vec![json!("enabled")],
            (false, None) => vec![json!("adaptive")],
        };
        assert!(thinking.contains(&said["thinking"]), "{name} {settings}: {said}");
        assert_eq!(said["budget"], json!(reasoning.budget), "{name} {settings}");
        if let Some(level) = reasoning.effort {
            // Without thinking, `claude-opus-5` is sent less.
            let is_less = reasoning.off && said["effort"] == "high";
            assert!(
                said["effort"] == level.as_str() || is_less,
                "{name} {settings}: {said}"
            );
        } else if model.effort().is_empty() {
            assert_eq!(said["effort"], Value::Null, "{name} {settings}");
        }
    }
}

#[tokio::test]
async fn the_list_of_models_says_what_the_cli_sends() {
    for name in [
        "claude-sonnet-4-5",
        "claude-opus-4-5",
        "claude-opus-4-1",
        "claude-haiku-5-5",
    ] {
        check_model(name).await;
    }
}

#[tokio::test]
#[ignore = "all models; `cargo xtask soak claude` runs it"]
async fn the_list_of_models_says_what_the_cli_sends_for_every_model() {
    for model in ClaudeModels::embedded().models() {
        check_model(model.id()).await;
    }
}

#[tokio::test]
async fn a_model_that_the_cli_replaces_is_named_once() {
    let server = AnthropicServer::replies((0..2).map(|_| AnthropicReply::text("ok")));
    let backend = ClaudeBackend::new(options(&server).model("claude-opus-4-1").reuse(Reuse::Never)).unwrap();
    for expected in [1, 0] {
        let log = turn(backend.start(TurnRequest::new("hi"))).await;
        let replaced = "Claude Code asks `claude-opus-5-5` in place of `claude-opus-4-1`";
        assert_eq!(log.notices(), vec![replaced; expected]);
    }
    backend.teardown().await.unwrap();
    server.finish();
    for same in [
        "opus",
        "claude-sonnet-4-20250514",
        "claude-sonnet-4-5[1m]",
        "acme-large",
    ] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let log = ask(options(&server).model(same), "hi").await;
        assert!(log.notices().is_empty(), "{same}: {:?}", log.notices());
        server.finish();
    }
}
