//! Errors on the wire become messages with cause, place and hint.

use std::net::TcpListener;

use holodeck_backend_api::BackendError;
use holodeck_testkit::{ModelServer, Reply};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;

use crate::setup::{agent, agent_of, ask, backend, model_of, run_turn, stable, text};

/// The error of one turn against a server with these replies.
async fn error_of(replies: impl IntoIterator<Item = Reply>) -> (BackendError, String) {
    let server = ModelServer::replies(replies);
    let error = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap_err();
    let message = stable(&error.explanation().text(), &server);
    server.finish();
    (error, message)
}

#[tokio::test]
async fn an_endpoint_that_is_down() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
    for (provider, name) in [("openai", "down_openai"), ("ollama", "down_ollama")] {
        let agent = agent(
            &format!("  provider: {provider}\n  name: m\n  endpoint: {url}"),
            "",
        );
        let error = ask(&backend(&agent), "hello").await.unwrap_err();
        assert!(error.is_unreachable());
        assert_snapshot!(name, error.explanation().text().replace(&url, "http://server"));
    }
}

#[tokio::test]
async fn a_wrong_key_is_asked_with_only_once() {
    let (error, message) = error_of([Reply::openai_error(
        401,
        "Incorrect API key provided: sk-***.",
        Some("invalid_api_key"),
        None,
    )])
    .await;
    assert!(error.is_credentials() && !error.is_retryable());
    assert_snapshot!(message);
}

#[tokio::test]
async fn a_key_that_is_echoed_is_not_shown() {
    let server = ModelServer::replies([Reply::openai_error(401, "bad key sk-very-secret", None, None)]);
    let model = format!("{}\n  api_key: sk-very-secret", model_of(&server));
    let error = ask(&backend(&agent(&model, "")), "hello").await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("very-secret"), "{error}");
    server.finish();
}

#[tokio::test]
async fn a_path_that_is_not_there() {
    let server =
        ModelServer::answering(|_| Reply::openai_error(404, "The model `m` does not exist", None, None));
    let error = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap_err();
    assert_snapshot!(stable(&error.explanation().text(), &server));
    assert_eq!(server.finish().len(), 1);
}

#[tokio::test]
async fn a_model_that_ollama_does_not_have() {
    let server = ModelServer::replies([Reply::openai_error(404, "model \"m\" not found", None, None)]);
    let model = format!("  provider: ollama\n  name: m\n  endpoint: {}", server.url());
    let error = ask(&backend(&agent(&model, "")), "hello").await.unwrap_err();
    assert!(error.explanation().hint.unwrap().contains("`ollama pull`"));
    server.finish();
}

#[tokio::test]
async fn too_many_requests_for_ever() {
    let busy =
        Reply::openai_error(429, "Rate limit reached", Some("rate_limit_exceeded"), None).retry_after(0);
    let (error, message) = error_of(vec![busy; 4]).await;
    assert!(error.is_retryable());
    assert_snapshot!(message);
}

#[tokio::test]
async fn an_exhausted_quota_is_not_retried() {
    let (error, _) = error_of([Reply::openai_error(
        429,
        "You exceeded your current quota",
        Some("insufficient_quota"),
        None,
    )])
    .await;
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_long_retry_after_is_reported() {
    let (error, _) = error_of([Reply::openai_error(429, "tomorrow", None, None).retry_after(86_400)]).await;
    let BackendError::Provider { retry_after, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(retry_after.unwrap().as_secs(), 86_400);
}

#[tokio::test]
async fn a_server_that_recovers_is_retried() {
    let server = ModelServer::replies([
        Reply::raw(503, "text/plain", "warming up"),
        Reply::html(502, "Bad gateway"),
        Reply::text("hi").cut_after(0),
        Reply::text("hi"),
    ]);
    let result = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap();
    assert_eq!(result.response, "hi");
    server.finish();
}

#[tokio::test]
async fn a_web_page_instead_of_an_answer() {
    let (_, message) = error_of([Reply::html(200, "Sign in")]).await;
    assert_snapshot!(message);
}

#[tokio::test]
async fn a_web_page_as_an_error() {
    let (_, message) = error_of(vec![Reply::html(500, "It works not"); 4]).await;
    assert_snapshot!(message);
}

#[tokio::test]
async fn json_that_is_no_answer() {
    let (_, message) = error_of([Reply::raw(200, "application/json", r#"{"status": "ok"}"#)]).await;
    assert_snapshot!(message);
    let (_, message) = error_of([Reply::raw(200, "application/json", "{\"choices\": [")]).await;
    assert_snapshot!(message);
}

#[tokio::test]
async fn an_error_inside_a_good_status() {
    let body = r#"{"error": {"message": "model is overloaded", "code": 503}}"#;
    // It is retried as the status would be.
    let replies = std::iter::repeat_with(|| Reply::raw(200, "application/json", body));
    let (error, message) = error_of(replies.take(4)).await;
    assert!(matches!(
        error,
        BackendError::Provider {
            status: Some(503),
            ..
        }
    ));
    assert_snapshot!(message);
}

#[tokio::test]
async fn an_error_inside_a_stream_keeps_the_text_before_it() {
    let stream = [
        r#"{"choices": [{"delta": {"content": "half"}}]}"#,
        r#"{"error": {"message": "out of memory"}}"#,
    ];
    let server = ModelServer::replies([Reply::events(stream)]);
    let (events, error) = run_turn(&backend(&agent_of(&server, ""))).await;
    assert_eq!(text(&events), "half");
    assert_snapshot!(stable(&error.unwrap().explanation().text(), &server));
    server.finish();
}

#[tokio::test]
async fn garbage_inside_a_stream() {
    let (error, message) = error_of([Reply::events(["{\"choices\": [}"])]).await;
    assert!(matches!(error, BackendError::Protocol { .. }));
    assert_snapshot!(message);
}

#[tokio::test]
async fn an_answer_of_fifty_megabytes() {
    let (error, message) = error_of([Reply::flood(50 * 1024 * 1024)]).await;
    assert!(matches!(error, BackendError::Protocol { .. }));
    assert_snapshot!(message);
}

#[tokio::test]
async fn a_refused_parameter_is_shown_with_its_line() {
    let unknown_limit = || {
        let body = r#"{"detail": "max_tokens is not supported"}"#;
        Reply::raw(400, "application/json", body)
    };
    let server = ModelServer::replies([
        Reply::openai_error(
            400,
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            Some("unsupported_value"),
            Some("temperature"),
        ),
        unknown_limit(),
        // The other name of the limit is tried.
        unknown_limit(),
    ]);
    let model = format!("{}\n  temperature: 0.2\n  max_tokens: 5", model_of(&server));
    let backend = backend(&agent(&model, ""));
    let named = ask(&backend, "hello").await.unwrap_err();
    let in_words = ask(&backend, "hello").await.unwrap_err();
    assert_snapshot!(stable(&named.explanation().text(), &server));
    assert_snapshot!(stable(&in_words.explanation().text(), &server));
    server.finish();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (_, message) =
        error_of([Reply::raw(302, "text/plain", "").header("location", "http://elsewhere")]).await;
    assert_snapshot!(message);
}
