//! Tests of sending requests: refused options, the fallback model, pacing, and replay without an endpoint.

use std::{num::NonZeroU32, sync::Arc};

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend as _, ModelCalls as _, ModelDelta, ModelRequest, NoTools};
use holodeck_backend_openai::{DriverOptions, Endpoint, HttpModelCalls, OpenAiBackend};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::Env;
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::setup::{agent, agent_of, ask, backend, calls, model_of, notices, run_turn};

#[tokio::test]
async fn stream_options_are_omitted_after_a_refusal() {
    let server = ModelServer::answering(|request| {
        if request.body.get("stream_options").is_some() {
            Reply::openai_error(
                400,
                "Unrecognized request argument supplied: stream_options",
                None,
                None,
            )
        } else {
            Reply::text("hi")
        }
    });
    let backend = backend(&agent_of(&server, ""));
    let result = ask(&backend, "hello").await.unwrap();
    // Usage that is not reported is missing, not zero.
    assert_eq!((result.response.as_str(), result.token_usage), ("hi", None));
    ask(&backend, "hello").await.unwrap();
    assert_eq!(server.finish().len(), 3);
}

#[tokio::test]
async fn the_fallback_model_answers_when_the_first_one_fails() {
    let server = ModelServer::answering(|request| match request.body["model"].as_str() {
        Some("m") => Reply::raw(503, "text/plain", "busy"),
        Some(other) => Reply::text("hi").model(&format!("{other}-2026")),
        None => Reply::text("?"),
    });
    let model = format!("{}\n  temperature: 0.5\n  max_tokens: 9", model_of(&server));
    let backend = backend(&agent(&model, "openai:\n  fallback_model: o3\n"));
    let (events, error) = run_turn(&backend).await;
    assert!(error.is_none());
    assert_eq!(
        notices(&events),
        ["`m` failed; the fallback model `o3` answered instead"]
    );
    let last = server.finish().pop().unwrap().body;
    assert_eq!(last["max_completion_tokens"], 9);
    assert_eq!(last.get("temperature"), None);
}

#[tokio::test]
async fn a_fallback_that_fails_too_leaves_the_first_error() {
    let server = ModelServer::answering(|request| match request.body["model"].as_str() {
        Some("m") => Reply::openai_error(500, "first", None, None),
        _ => Reply::openai_error(400, "second", None, None),
    });
    let backend = backend(&agent_of(&server, "openai:\n  fallback_model: n\n"));
    let error = ask(&backend, "hello").await.unwrap_err();
    assert!(error.to_string().contains("first"), "{error}");
    server.finish();
}

#[tokio::test]
async fn a_wrong_request_is_not_sent_to_the_fallback() {
    let server = ModelServer::replies([Reply::openai_error(400, "no", None, None)]);
    let backend = backend(&agent_of(&server, "openai:\n  fallback_model: n\n"));
    ask(&backend, "hello").await.unwrap_err();
    server.finish();
}

#[tokio::test]
async fn a_paced_call_reports_its_wait() {
    let server = ModelServer::replies([Reply::text("hi")]);
    let agent = agent_of(&server, "");
    let driver = HttpModelCalls::new(
        HttpClient::new(&HttpOptions::default()).unwrap(),
        Endpoint::resolve(agent.config.model.as_ref().unwrap(), "model", None, &Env::empty()).unwrap(),
        DriverOptions {
            rpm: NonZeroU32::new(6_000),
            ..DriverOptions::default()
        },
    );
    let request = ModelRequest {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: json!({"messages": [{"role": "user", "content": "hi"}]}).into(),
        unit: None,
    };
    let stream = driver.call(&request, &CancellationToken::new()).await.unwrap();
    let deltas: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(
        deltas[..3],
        [
            ModelDelta::Paused,
            ModelDelta::Resumed,
            ModelDelta::Text("hi".to_owned())
        ]
    );
    server.finish();
}

#[tokio::test]
async fn rpm_of_the_yaml_reaches_the_events() {
    let server = ModelServer::replies([Reply::text("hi")]);
    let agent = agent(&format!("{}\n  rpm: 600", model_of(&server)), "");
    let (events, _) = run_turn(&backend(&agent)).await;
    assert_eq!(events[0], holodeck_backend_api::BackendEvent::Paused);
    server.finish();
}

#[tokio::test]
async fn a_backend_with_recorded_calls_needs_no_endpoint() {
    let agent = agent("  provider: openai\n  name: m", "");
    let model = holodeck_testkit::ScriptedModel::replies([]);
    let backend = OpenAiBackend::new(
        &agent,
        agent.config.model.as_ref().unwrap(),
        None,
        Arc::new(NoTools),
        model,
    );
    assert!(backend.initialize().await.is_ok());
    assert!(calls(&agent, &Env::empty()).is_err());
}
