//! How turns end: within their limits, beyond them, and with errors of the model's endpoint.

use holodeck_backend_api::{AgentBackend as _, BackendError, Outcome, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, Limits, Reuse, Tools};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{ask, limits, options, turn};

fn look() -> Tools {
    Tools::new().with("look", "Looks.", json!({"type": "object"}), |_, _| async {
        holodeck_backend_api::ToolOutput::ok("seen")
    })
}

fn call() -> AnthropicReply {
    AnthropicReply::tool_use("mcp__holodeck_tools__look", &json!({}))
}

#[tokio::test]
async fn all_turns_may_be_used_but_no_more() {
    let server = AnthropicServer::replies([
        call().and_tool_use("mcp__holodeck_tools__look", &json!({})),
        AnthropicReply::text("two of two"),
        call(),
        call(),
        AnthropicReply::text("as before"),
    ]);
    let options = options(&server).tools(look()).max_turns(2);
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let first = session.send("a").await.unwrap();
    assert_eq!(
        (first.outcome, first.response.as_str()),
        (Outcome::Completed, "two of two")
    );
    assert_eq!(first.num_turns, 2);
    let second = session.send("b").await.unwrap();
    assert_eq!(second.outcome, Outcome::MaxTurns);
    assert_eq!(second.error_reason().unwrap(), "max_turns limit reached");
    assert_eq!((second.tool_calls.len(), second.num_turns), (2, 2));
    assert_eq!(session.send("c").await.unwrap().response, "as before");
    session.close().await.unwrap();
    server.finish();
}

/// At 15 dollars per million output tokens, each reply costs three dollars.
#[tokio::test]
async fn the_budget_applies_to_one_message() {
    let costly = |reply: AnthropicReply| reply.tokens(10, 200_000);
    let server = AnthropicServer::replies([
        costly(AnthropicReply::text("three dollars")),
        costly(AnthropicReply::text("three more")),
        costly(call()),
        costly(call()),
    ]);
    let options = options(&server).tools(look()).max_budget_usd(5.0);
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for message in ["a", "b"] {
        let cheap = session.send(message).await.unwrap();
        assert_eq!(cheap.outcome, Outcome::Completed, "{message}");
    }
    let expensive = session.send("c").await.unwrap();
    assert_eq!(expensive.outcome, Outcome::BudgetExceeded);
    assert_eq!(expensive.token_usage.unwrap().completion_tokens, 400_000);
    session.close().await.unwrap();
    server.finish();
}

#[tokio::test]
async fn errors_of_the_endpoint_have_status_and_text() {
    let server = AnthropicServer::answering(|request| {
        let status = request.prompt().parse().unwrap();
        AnthropicReply::error(status, &format!("from the endpoint: {status}"))
    });
    let backend = ClaudeBackend::new(options(&server).reuse(Reuse::Never)).unwrap();
    for (status, retryable) in [
        (400, false),
        (401, false),
        (403, false),
        (429, true),
        (500, true),
        (529, true),
    ] {
        let log = turn(backend.start(TurnRequest::new(status.to_string()))).await;
        let error = log.end.unwrap_err();
        let BackendError::Provider {
            status: actual,
            explanation,
            retryable: again,
            ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!((*actual, *again), (Some(status), retryable), "{error:?}");
        // For refused credentials, the text is replaced.
        if !error.is_credentials() {
            let text = format!("from the endpoint: {status}");
            assert!(explanation.message.contains(&text), "{explanation}");
        }
        assert!(explanation.message.contains(&status.to_string()), "{explanation}");
    }
    backend.teardown().await.unwrap();
}

#[tokio::test]
async fn refused_credentials_are_not_retried() {
    let server = AnthropicServer::answering(|_| AnthropicReply::error(401, "invalid x-api-key"));
    let patient = options(&server).limits(Limits {
        api_retries: 5,
        ..limits()
    });
    let error = ask(patient, "hi").await.end.unwrap_err();
    assert!(error.is_credentials(), "{error:?}");
    assert_eq!(server.finish().len(), 1);
}

#[tokio::test]
async fn another_model_answers_for_an_overloaded_one() {
    let server = AnthropicServer::answering(|request| match request.model() {
        "claude-sonnet-4-5" => AnthropicReply::error(529, "Overloaded"),
        model => AnthropicReply::text(format!("I am {model}.")),
    });
    let options = options(&server)
        .fallback_model("claude-haiku-4-5")
        .limits(Limits {
            api_retries: 3,
            ..limits()
        });
    let log = ask(options, "hi").await;
    assert!(log.result().response.starts_with("I am claude-haiku-4-5"));
    assert!(
        log.result()
            .model
            .as_deref()
            .unwrap()
            .starts_with("claude-haiku-4-5")
    );
    let [notice] = log.notices()[..] else {
        panic!("{:?}", log.notices());
    };
    assert!(notice.contains("overloaded"), "{notice}");
    server.finish();
}
