//! Snapshots of whole requests as the endpoint receives them.

use std::sync::Arc;

use holodeck_backend_api::AgentBackend as _;
use holodeck_backend_api::{HistoryItem, NoTools};
use holodeck_backend_openai::OpenAiBackend;
use holodeck_model::Env;
use holodeck_testkit::{ModelReply, ModelServer, Reply, ScriptedModel, ScriptedTools};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{agent, agent_of, ask, backend, calls, model_of, notices, run_turn, scripted};

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[tokio::test]
async fn the_plainest_request() {
    let server = ModelServer::replies([Reply::text("hi")]);
    let agent = agent_of(&server, "");
    ask(&backend(&agent), "hello").await.unwrap();
    let request = server.finish().remove(0);
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_snapshot!(pretty(&request.body));
}

#[tokio::test]
async fn a_request_with_everything() {
    let server = ModelServer::replies([Reply::text("hi")]);
    let model = format!(
        "{}\n  temperature: 0.2\n  top_p: 0.9\n  max_tokens: 50\n  api_key: sk-yaml-key",
        model_of(&server)
    );
    let agent = agent(
        &model,
        "openai:\n  effort: high\n  permissions: {allowed_tools: [echo, pair], disallowed_tools: [fails]}\n  disallowed_tools: [hang]\n",
    );
    let backend = crate::setup::equipped(&agent, Arc::new(ScriptedTools::default()));
    let context = [HistoryItem::user("one"), HistoryItem::assistant("uno")];
    backend.invoke_once("two", &context).await.unwrap();
    let request = server.finish().remove(0);
    assert_eq!(request.header("authorization"), Some("Bearer sk-yaml-key"));
    assert_snapshot!(pretty(&request.body));
}

#[tokio::test]
async fn azure_gets_its_own_paths_and_header() {
    let env: Env = [("AZURE_OPENAI_API_KEY", "az-key")].into_iter().collect();
    for (version, path) in [
        (
            "  api_version: 2024-10-21",
            "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
        ),
        ("", "/openai/v1/chat/completions"),
    ] {
        let server = ModelServer::replies([Reply::text("hi")]);
        let model = format!(
            "  provider: azure_openai\n  name: my-gpt\n  endpoint: {}/\n{version}",
            server.url()
        );
        let agent = agent(&model, "");
        let calls = calls(&agent, &env).unwrap();
        let backend = OpenAiBackend::new(
            &agent,
            agent.config.model.as_ref().unwrap(),
            None,
            Arc::new(NoTools),
            Arc::new(calls),
        );
        ask(&backend, "hello").await.unwrap();
        let request = server.finish().remove(0);
        assert_eq!(request.path, path);
        assert_eq!(request.header("api-key"), Some("az-key"));
        assert_eq!(request.header("authorization"), None);
    }
}

#[tokio::test]
async fn an_endpoint_with_a_path_is_used_as_given() {
    let server = ModelServer::replies([Reply::text("hi")]);
    let model = format!(
        "  provider: ollama\n  name: m\n  endpoint: {}/api/v9",
        server.url()
    );
    ask(&backend(&agent(&model, "")), "hello").await.unwrap();
    assert_eq!(server.finish()[0].path, "/api/v9/chat/completions");
}

#[tokio::test]
async fn a_reasoning_model_gets_its_parameters_and_one_note() {
    let server = ModelServer::replies([Reply::text("a"), Reply::text("b")]);
    let model = format!(
        "  provider: openai\n  name: o4-mini\n  endpoint: {}\n  temperature: 0.2\n  max_tokens: 50",
        server.url()
    );
    let agent = agent(&model, "");
    let backend = backend(&agent);
    let (events, _) = run_turn(&backend).await;
    assert_eq!(
        notices(&events),
        ["`o4-mini` is a reasoning model: `temperature` is not sent, \
          `max_tokens` is sent as `max_completion_tokens`"]
    );
    let (events, _) = run_turn(&backend).await;
    assert_eq!(notices(&events), Vec::<&str>::new());
    let body = &server.finish()[0].body;
    assert_eq!(body["max_completion_tokens"], 50);
    assert_eq!((body.get("temperature"), body.get("max_tokens")), (None, None));
}

#[tokio::test]
async fn the_boundary_carries_what_the_model_sees_and_the_unit() {
    let model = ScriptedModel::replies([ModelReply::text("hi")]);
    let backend = scripted("", &model, Arc::new(NoTools));
    let request = holodeck_backend_api::TurnRequest {
        unit: Some("case 1".to_owned()),
        ..holodeck_backend_api::TurnRequest::new("hello")
    };
    holodeck_backend_api::collect(backend.start(request))
        .await
        .unwrap();
    let request = model.requests().remove(0);
    assert_eq!(
        (request.provider.as_str(), request.model.as_str()),
        ("ollama", "m")
    );
    assert_eq!(request.unit.as_deref(), Some("case 1"));
    assert_eq!(
        *request.body,
        json!({"messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ]})
    );
}

#[tokio::test]
async fn no_key_means_no_driver() {
    let agent = agent("  provider: openai\n  name: m", "");
    let error = calls(&agent, &Env::empty()).unwrap_err();
    assert_snapshot!(error.explanation().text());
}
