//! Tests of embedding requests for each provider, and of answers that are not vectors.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{EmbeddingProvider, EmbeddingSettings, Env};
use holodeck_retrieval::{Embedder, EndpointOptions, Purpose, RetrievalError, embedder};
use holodeck_testkit::{EndpointServer, Gate, ModelServer, ReceivedRequest, Reply};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn settings(provider: EmbeddingProvider, model: &str, endpoint: &str) -> EmbeddingSettings {
    EmbeddingSettings {
        provider,
        model: model.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        api_key: Some("sk-hush".into()),
        api_version: None,
        rpm: None,
        dimensions: None,
        block: "embedding_provider",
    }
}

fn options() -> EndpointOptions {
    let mut options = EndpointOptions::default();
    options.retry.first_wait = Duration::from_millis(1);
    options
}

fn build(settings: &EmbeddingSettings) -> Arc<dyn Embedder> {
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    embedder(settings, &client, &Env::empty(), &options()).unwrap()
}

fn openai(server: &EndpointServer) -> EmbeddingSettings {
    settings(EmbeddingProvider::Openai, "any", &server.url())
}

fn vectors(vectors: &Value) -> Reply {
    let data: Vec<Value> = vectors
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, vector)| json!({"index": index, "embedding": vector}))
        .collect();
    body(&json!({"data": data}))
}

fn body(body: &Value) -> Reply {
    Reply::raw(200, "application/json", body.to_string())
}

/// One number per text: the index of its word.
fn numbered(request: &ReceivedRequest) -> Reply {
    let texts = request.body["input"].as_array().unwrap();
    let numbers: Vec<Value> = texts
        .iter()
        .map(|text| json!([1.0, text.as_str().unwrap().trim().parse::<f64>().unwrap()]))
        .collect();
    vectors(&Value::Array(numbers))
}

fn rendered(error: &RetrievalError, server: &EndpointServer) -> String {
    error.explanation().text().replace(&server.url(), "[server]")
}

#[tokio::test]
async fn openai_requests_follow_its_api_and_vectors_have_length_one() {
    let server = EndpointServer::replies([body(&json!({"data": [
        {"index": 1, "embedding": [0.0, -2.0]},
        {"index": 0, "embedding": [3.0, 4.0]},
    ]}))]);
    let made = build(&openai(&server))
        .embed(&["a", "b"], Purpose::Passage)
        .await
        .unwrap();
    assert_eq!(made, [vec![0.6, 0.8], vec![0.0, -1.0]]);
    let requests = server.finish();
    assert_eq!(requests[0].path, "/v1/embeddings");
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-hush"));
    assert_eq!(requests[0].body, json!({"model": "any", "input": ["a", "b"]}));
}

#[tokio::test]
async fn dimensions_are_sent_only_if_configured_and_then_enforced() {
    let server = EndpointServer::replies([vectors(&json!([[1, 0, 0]])), vectors(&json!([[1, 0]]))]);
    let with = EmbeddingSettings {
        dimensions: Some(3),
        ..openai(&server)
    };
    let with = build(&with);
    assert_eq!(with.id().dimensions, Some(3));
    with.embed(&["a"], Purpose::Query).await.unwrap();
    let error = with.embed(&["a"], Purpose::Query).await.unwrap_err();
    assert_snapshot!(rendered(&error, &server), @r"
    embedding with openai any (3 dimensions): [server]/v1/embeddings answered with a vector of 2 dimensions instead of 3
      configured as `embedding_provider.endpoint`
    ");
    let requests = server.finish();
    assert_eq!(requests[0].body["dimensions"], 3);
}

#[tokio::test]
async fn azure_takes_the_deployment_from_the_path() {
    let server = EndpointServer::replies([vectors(&json!([[1.0]]))]);
    let azure = EmbeddingSettings {
        api_version: Some("2024-10-21".to_owned()),
        ..settings(EmbeddingProvider::AzureOpenai, "mine", &server.url())
    };
    build(&azure).embed(&["a"], Purpose::Passage).await.unwrap();
    let requests = server.finish();
    assert_eq!(
        requests[0].path,
        "/openai/deployments/mine/embeddings?api-version=2024-10-21"
    );
    assert_eq!(requests[0].header("api-key"), Some("sk-hush"));
    assert_eq!(requests[0].header("authorization"), None);
}

#[tokio::test]
async fn ollama_is_asked_its_own_way_with_what_the_model_was_trained_on() {
    let unit: Vec<f32> = std::iter::once(1.0)
        .chain(std::iter::repeat_n(0.0, 767))
        .collect();
    let reply = body(&json!({"embeddings": [unit]}));
    let server = EndpointServer::replies([reply.clone(), reply]);
    let ollama = settings(
        EmbeddingProvider::Ollama,
        "nomic-embed-text:latest",
        &format!("{}/v1", server.url()),
    );
    let ollama = build(&ollama);
    assert_eq!(ollama.id().dimensions, Some(768));
    ollama.embed(&["cats"], Purpose::Passage).await.unwrap();
    ollama.embed(&["cats?"], Purpose::Query).await.unwrap();
    let requests = server.finish();
    assert_eq!(requests[0].path, "/api/embed");
    let input = json!({
        "model": "nomic-embed-text:latest", "input": ["search_document: cats"], "truncate": false,
    });
    assert_eq!(requests[0].body, input);
    assert_eq!(requests[1].body["input"], json!(["search_query: cats?"]));
}

#[tokio::test]
async fn a_text_too_long_for_ollama_is_embedded_by_its_beginning_from_then_on() {
    let long = Reply::error(
        400,
        &json!({"error": "the input length exceeds the context length"}),
    );
    let fine = body(&json!({"embeddings": [[1.0]]}));
    let server = EndpointServer::replies([long, fine.clone(), fine]);
    let ollama = build(&settings(EmbeddingProvider::Ollama, "m", &server.url()));
    ollama.embed(&["long"], Purpose::Passage).await.unwrap();
    ollama.embed(&["other"], Purpose::Passage).await.unwrap();
    let cuts: Vec<Value> = server
        .finish()
        .iter()
        .map(|request| request.body["truncate"].clone())
        .collect();
    assert_eq!(cuts, [false, true, true]);
}

#[tokio::test]
async fn whatever_is_no_vector_is_an_error_and_never_a_placeholder() {
    for (reply, what) in [
        (vectors(&json!([[1.0]])), "1 vectors for 2 texts"),
        (
            vectors(&json!([[1.0], [1.0, 2.0]])),
            "a vector of 2 dimensions instead of 1",
        ),
        (vectors(&json!([[0.0, 0.0], [1.0, 0.0]])), "a vector of zeros"),
        (vectors(&json!([[], []])), "a vector of 0 dimensions instead of 0"),
        (vectors(&json!([[1.0], null])), "invalid type: null"),
        (vectors(&json!([[1.0], [null]])), "invalid type: null"),
        (vectors(&json!([[1.0], ["NaN"]])), "invalid type: string"),
        (
            Reply::raw(200, "application/json", r#"{"data": [{"embedding": [NaN]}]}"#),
            "an unexpected body",
        ),
        (
            body(&json!({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]})),
            "two vectors for text 1",
        ),
        (
            body(&json!({"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]})),
            "a vector for text 3 of only 2",
        ),
        (Reply::html(200, "Sign in"), "<!DOCTYPE html>"),
        (
            Reply::raw(200, "application/json", ""),
            "answered with an empty body",
        ),
    ] {
        let server = EndpointServer::replies([reply]);
        let error = build(&openai(&server)).embed(&["a", "b"], Purpose::Passage).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, RetrievalError::Embedding { retryable: false, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_shows_its_beginning_without_the_key() {
    for before in [0, 5, 100, 115, 119] {
        let page = format!("<p>{}sk-hush</p>", "x".repeat(before));
        let server = EndpointServer::replies([Reply::raw(200, "text/html", page)]);
        let error = build(&openai(&server)).embed(&["a"], Purpose::Query).await;
        let shown = rendered(&error.unwrap_err(), &server);
        assert!(
            shown.contains("[server]/v1/embeddings") && shown.contains("`<p>"),
            "{shown}"
        );
        assert!(!shown.contains("sk-"), "{shown}");
        server.finish();
    }
}

#[tokio::test]
async fn a_blank_text_is_refused_before_any_request() {
    let server = EndpointServer::replies([]);
    let error = build(&openai(&server))
        .embed(&["a", " \n"], Purpose::Passage)
        .await;
    assert_snapshot!(error.unwrap_err(), @"embedding with openai any: the text is refused: text 2 of 2 is blank");
    server.finish();
}

#[tokio::test]
async fn many_texts_go_in_bounded_requests_some_at_a_time_and_come_back_in_order() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = EndpointServer::answering(move |request| numbered(request).behind(&held));
    let texts: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let embedder = build(&openai(&server));
    let opener = async {
        server.until_open(4).await;
        gate.open();
    };
    let (made, ()) = tokio::join!(embedder.embed(&texts, Purpose::Passage), opener);
    let made = made.unwrap();
    assert_eq!(made.len(), 1000);
    for (number, vector) in made.iter().enumerate() {
        let ratio = f64::from(vector[1]) / f64::from(vector[0]);
        assert!((ratio - number as f64).abs() < 0.01, "{number}: {vector:?}");
    }
    let sizes: Vec<usize> = server
        .finish()
        .iter()
        .map(|request| request.body["input"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 1000);
    assert_eq!((sizes.len(), sizes.iter().max()), (8, Some(&128)));
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_not() {
    let busy = Reply::openai_error(429, "slow down", Some("rate_limit_exceeded"), None)
        .header("retry-after-ms", "1");
    let server = EndpointServer::replies([busy, Reply::error(503, &json!({})), vectors(&json!([[1.0]]))]);
    build(&openai(&server))
        .embed(&["a"], Purpose::Query)
        .await
        .unwrap();
    assert_eq!(server.finish().len(), 3);

    let quota = Reply::openai_error(429, "no money left", Some("insufficient_quota"), None);
    let server = EndpointServer::replies([quota]);
    let error = build(&openai(&server))
        .embed(&["a"], Purpose::Query)
        .await
        .unwrap_err();
    assert_snapshot!(rendered(&error, &server), @r"
    embedding with openai any: [server]/v1/embeddings answered 429 Too Many Requests: no money left
      configured as `embedding_provider.endpoint`

    hint: the account has no credit left
    ");
    server.finish();

    let server =
        EndpointServer::replies([Reply::openai_error(401, "Incorrect API key: sk-hush", None, None)]);
    let error = build(&openai(&server))
        .embed(&["a"], Purpose::Query)
        .await
        .unwrap_err();
    assert_snapshot!(rendered(&error, &server), @r"
    embedding with openai any: [server]/v1/embeddings answered 401 Unauthorized: Incorrect API key: ***
      configured as `embedding_provider.endpoint`

    hint: check the key in `OPENAI_API_KEY` or `embedding_provider.api_key`
    ");
    server.finish();

    let server = EndpointServer::replies([Reply::openai_error(400, "too many tokens", None, None)]);
    let error = build(&openai(&server))
        .embed(&["a"], Purpose::Query)
        .await
        .unwrap_err();
    assert!(matches!(error, RetrievalError::Refused { .. }), "{error:?}");
    server.finish();
}

#[tokio::test]
async fn requests_are_spaced_out_if_the_yaml_sets_it() {
    let server = EndpointServer::answering(numbered);
    let paced = EmbeddingSettings {
        rpm: Some(1200),
        ..openai(&server)
    };
    let texts: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let started = Instant::now();
    build(&paced).embed(&texts, Purpose::Passage).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert_eq!(server.finish().len(), 3);
}

#[tokio::test]
async fn a_server_without_key_or_address_is_a_matter_of_setup() {
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    let none = EmbeddingSettings {
        endpoint: None,
        api_key: None,
        ..settings(EmbeddingProvider::Openai, "m", "")
    };
    let error = embedder(&none, &client, &Env::empty(), &options()).err().unwrap();
    assert_snapshot!(error.explanation().text(), @r"
    `OPENAI_API_KEY` is not set

    hint: put `OPENAI_API_KEY=…` into `.env` beside the agent file, or export it
    ");
    let azure = EmbeddingSettings {
        endpoint: None,
        ..settings(EmbeddingProvider::AzureOpenai, "m", "")
    };
    let error = embedder(&azure, &client, &Env::empty(), &options())
        .err()
        .unwrap();
    assert_snapshot!(error, @"`provider: azure_openai` needs `embedding_provider.endpoint`");
}

/// The server that tests whole agents speaks the same protocol.
#[tokio::test]
async fn the_scripted_model_server_makes_embeddings() {
    let server = ModelServer::replies([]);
    for provider in [EmbeddingProvider::Openai, EmbeddingProvider::Ollama] {
        let made = build(&settings(provider, "m", &server.url()))
            .embed(&["red apples", "apples", "the sea"], Purpose::Passage)
            .await
            .unwrap();
        let likeness = |a: usize, b: usize| made[a].iter().zip(&made[b]).map(|(a, b)| a * b).sum::<f32>();
        assert!(likeness(0, 1) > 0.5 && likeness(0, 2) < 0.5);
    }
    assert_eq!(server.embedding_requests().len(), 2);
    server.finish();
}

/// Servers that take fewer texts at once than they are asked for, in forms of their own.
#[tokio::test]
async fn a_batch_that_is_too_large_is_asked_for_in_halves_and_its_size_is_remembered() {
    for status in [400, 413, 422] {
        for most in [1, 2, 3, 10, 25, 31, 32, 127] {
            let server = EndpointServer::answering(move |request| {
                let texts = request.body["input"].as_array().unwrap().len();
                if texts > most {
                    let message = format!("batch size is invalid, it should not be larger than {most}.");
                    return Reply::error(status, &json!({"error": {"message": message}}));
                }
                numbered(request)
            });
            let embedder = build(&openai(&server));
            let texts: Vec<String> = (1..=60).map(|number| number.to_string()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut counts = Vec::new();
            for _ in 0..2 {
                let made = embedder.embed(&texts, Purpose::Passage).await.unwrap();
                let order: Vec<f32> = made
                    .iter()
                    .map(|vector| (vector[1] / vector[0]).round())
                    .collect();
                let right: Vec<f32> = (1..=60_u8).map(f32::from).collect();
                assert_eq!(order, right, "{status}, {most}");
                counts.push(server.requests().len());
            }
            let requests = server.finish();
            let later = requests[counts[0]..]
                .iter()
                .map(|request| request.body["input"].as_array().unwrap().len());
            assert!(
                later.clone().all(|texts| texts <= most) && later.sum::<usize>() == 60,
                "{status}, {most}: what was refused once is not asked for again"
            );
        }
    }
}

#[tokio::test]
async fn a_single_text_that_is_refused_is_an_error_and_no_size_to_remember() {
    for bad in [1, 7, 8, 9, 16] {
        let server = EndpointServer::answering(move |request| {
            let texts = request.body["input"].as_array().unwrap();
            if texts.iter().any(|text| text == &bad.to_string()) {
                return Reply::error(400, &json!({"error": {"message": "a text is not allowed"}}));
            }
            numbered(request)
        });
        let embedder = build(&openai(&server));
        let all: Vec<String> = (1..=16).map(|number| number.to_string()).collect();
        let texts: Vec<&str> = all.iter().map(String::as_str).collect();
        let error = embedder.embed(&texts, Purpose::Passage).await.unwrap_err();
        assert!(matches!(error, RetrievalError::Refused { .. }), "{error:?}");
        let refused = server.requests().len();
        assert!(refused <= 16, "{refused}");
        let good: Vec<&str> = texts
            .into_iter()
            .filter(|text| *text != bad.to_string())
            .collect();
        assert_eq!(embedder.embed(&good, Purpose::Passage).await.unwrap().len(), 15);
        let requests = server.finish();
        assert_eq!(requests.len(), refused + 1, "the good ones are asked for at once");
    }
}
