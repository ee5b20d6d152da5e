//! Tests of reranking requests and of answers without scores.

use std::time::Duration;

use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::ModelConfig;
use holodeck_retrieval::{EndpointOptions, HttpReranker, Reranker as _, RetrievalError};
use holodeck_testkit::{EndpointServer, Reply};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn build(model: &Value) -> Result<HttpReranker, RetrievalError> {
    let model: ModelConfig = serde_json::from_value(model.clone()).unwrap();
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    let mut options = EndpointOptions::default();
    options.retry.first_wait = Duration::from_millis(1);
    HttpReranker::new(&model, client, &options)
}

fn of(server: &EndpointServer) -> HttpReranker {
    let model = json!({
        "provider": "openai", "name": "rerank-v3.5", "endpoint": format!("{}/v2", server.url()), "api_key": "co-hush",
    });
    build(&model).unwrap()
}

#[tokio::test]
async fn texts_are_judged_in_one_request_and_scores_come_in_their_order() {
    let answer = json!({"results": [
        {"index": 1, "relevance_score": 0.9},
        {"index": 0, "relevance_score": 0.1},
    ]});
    let busy = Reply::error(503, &json!({"message": "busy"}));
    let server = EndpointServer::replies([busy, Reply::raw(200, "application/json", answer.to_string())]);
    let scores = of(&server).rerank("who?", &["a", "b"]).await.unwrap();
    assert_eq!(scores, [0.1, 0.9]);
    let requests = server.finish();
    assert_eq!(requests[1].path, "/v2/rerank");
    assert_eq!(requests[1].header("authorization"), Some("Bearer co-hush"));
    assert_eq!(
        requests[1].body,
        json!({"model": "rerank-v3.5", "query": "who?", "documents": ["a", "b"], "top_n": 2})
    );
}

#[tokio::test]
async fn a_failure_is_an_error_and_nothing_else() {
    let server = EndpointServer::replies([
        Reply::error(401, &json!({"message": "invalid api token"})),
        Reply::raw(200, "application/json", r#"{"results": []}"#),
    ]);
    let reranker = of(&server);
    let rendered = |error: RetrievalError| error.explanation().text().replace(&server.url(), "[server]");
    let error = reranker.rerank("who?", &["a"]).await.unwrap_err();
    assert_snapshot!(rendered(error), @r"
    reranking with rerank-v3.5: [server]/v2/rerank answered 401 Unauthorized: invalid api token
      configured as `reranker_model.endpoint`

    hint: check `reranker_model.api_key`; no variable is read for it
    ");
    let error = reranker.rerank("who?", &["a"]).await.unwrap_err();
    assert_snapshot!(rendered(error), @r"
    reranking with rerank-v3.5: [server]/v2/rerank answered with scores for 0 of 1 texts
      configured as `reranker_model.endpoint`
    ");
    assert_eq!(reranker.rerank("who?", &[]).await.unwrap(), [0.0; 0]);
    server.finish();
}

#[test]
fn a_reranker_without_a_server_of_its_own_is_refused() {
    let error = build(&json!({"provider": "anthropic", "name": "m"})).unwrap_err();
    assert_snapshot!(error.explanation().text(), @r"
    `reranker_model` does not support provider `anthropic`, which has no `/rerank`

    hint: use `provider: openai` with `endpoint:` for Cohere, Jina, vLLM and compatible servers
    ");
    assert!(build(&json!({"provider": "openai", "name": "m"})).is_err());
}
