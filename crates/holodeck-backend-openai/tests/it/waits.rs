//! Errors in answers that began with 200 are retried as their status would be, after the wait that the server asks for.

use std::time::Duration;

use holodeck_backend_api::BackendError;
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{agent, agent_of, ask, backend, model_of};

fn in_both_forms(error: &Value) -> [Reply; 2] {
    [
        Reply::raw(200, "application/json", error.to_string()),
        Reply::events([error.to_string().as_str(), "[DONE]"]),
    ]
}

/// How often a server that always answers so is asked, the wait that it asks for, and the error.
async fn asked(reply: Reply) -> (usize, Option<Duration>, BackendError) {
    let server = ModelServer::answering(move |_| reply.clone());
    let error = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap_err();
    let BackendError::Provider { retry_after, .. } = &error else {
        panic!("{error:?}")
    };
    (server.finish().len(), *retry_after, error)
}

#[tokio::test]
async fn an_error_that_passes_is_retried_wherever_its_status_is() {
    for (error, requests) in [
        (json!({"error": {"message": "no", "code": 503}}), 4),
        (json!({"error": {"message": "no", "status": 503}}), 4),
        (
            json!({"error": {"message": "no", "code": "busy"}, "status": 503}),
            4,
        ),
        (json!({"error": "no", "status_code": 502}), 4),
        (json!({"error": {"message": "no", "type": "overloaded_error"}}), 4),
        (
            json!({"error": {"message": "no", "code": "rate_limit_exceeded"}}),
            4,
        ),
        (
            json!([{"error": {"message": "no", "code": 429, "status": "RESOURCE_EXHAUSTED"}}]),
            4,
        ),
        (
            json!({"choices": [{"index": 0, "error": {"message": "no", "code": 502}}]}),
            4,
        ),
        (json!({"error": {"message": "no", "code": 408}}), 4),
        (json!({"error": {"message": "no", "code": 400}}), 1),
        (json!({"error": {"message": "no", "code": 401}}), 1),
        (
            json!({"error": {"message": "no", "code": "insufficient_quota"}}),
            1,
        ),
        (
            json!({"error": {"message": "no", "code": "insufficient_quota", "status": 429}}),
            1,
        ),
        (json!({"error": {"message": "no"}}), 1),
        (
            json!({"error": {"message": "no", "code": "content_filter", "status": 503}}),
            1,
        ),
        (
            json!({"error": {"message": "no", "code": "content_filter", "type": "service_unavailable"}}),
            1,
        ),
        (
            json!({"error": {"message": "no", "code": "invalid_api_key", "retry_after": 0.01}}),
            1,
        ),
        (
            json!({"error": {"message": "no", "code": "invalid_request_error", "retry_after": 0.01}}),
            1,
        ),
        (
            json!({"error": {"message": "no", "code": "context_length_exceeded", "retry_after": 0.01}}),
            1,
        ),
    ] {
        for reply in in_both_forms(&error) {
            let (count, _, found) = asked(reply).await;
            assert_eq!(count, requests, "{error}");
            assert_eq!(found.is_retryable(), requests > 1, "{error}");
        }
    }
}

#[tokio::test]
async fn the_wait_of_headers_and_of_the_body_is_honoured() {
    let busy = json!({"error": {"message": "no", "code": 503}});
    let unnamed = json!({"error": {"message": "no"}});
    let wrong = json!({"error": {"message": "no", "code": 400}});
    let with_delay =
        |delay: &str| json!({"error": {"message": "no", "code": 429, "details": [{"retryDelay": delay}]}});
    for (error, header, requests, wait) in [
        (busy.clone(), Some(("retry-after", "0")), 4, Some(0.0)),
        (busy.clone(), Some(("retry-after-ms", "1.5")), 4, Some(0.0015)),
        // A server that asks for a wait expects another request.
        (unnamed.clone(), Some(("retry-after", "0")), 4, Some(0.0)),
        (wrong, Some(("retry-after", "0")), 1, Some(0.0)),
        (with_delay("0s"), None, 4, Some(0.0)),
        // One does not wait so long.
        (busy.clone(), Some(("retry-after", "86400")), 1, Some(86_400.0)),
        (unnamed, Some(("retry-after", "86400")), 1, Some(86_400.0)),
        (with_delay("7200s"), None, 1, Some(7200.0)),
        // The header comes first, as for an error with a status of its own.
        (with_delay("7200s"), Some(("retry-after", "0")), 4, Some(0.0)),
        (busy, None, 4, None),
    ] {
        for reply in in_both_forms(&error) {
            let reply = match header {
                Some((name, value)) => reply.header(name, value),
                None => reply,
            };
            let (count, found, shown) = asked(reply).await;
            assert_eq!(count, requests, "{error} {header:?}");
            assert_eq!(found.map(|wait| wait.as_secs_f64()), wait, "{error} {header:?}");
            let is_long = wait.is_some_and(|wait| wait > 60.0);
            assert_eq!(shown.to_string().contains("asks to wait"), is_long, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_server_that_recovers_answers_in_the_end() {
    let busy = json!({"error": {"message": "no", "status": 503}});
    let [whole, streamed] = in_both_forms(&busy);
    let server = ModelServer::replies([whole.header("retry-after", "0"), streamed, Reply::text("hi")]);
    let result = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap();
    assert_eq!(result.response, "hi");
    server.finish();
}

#[tokio::test]
async fn the_fallback_model_answers_after_an_error_in_an_answer() {
    for reply in in_both_forms(&json!({"error": {"message": "no", "status": 503}})) {
        let server = ModelServer::answering(move |request| match request.body["model"].as_str() {
            Some("m") => reply.clone(),
            _ => Reply::text("from the other"),
        });
        let agent = agent(&model_of(&server), "openai:\n  fallback_model: other\n");
        let result = ask(&backend(&agent), "hello").await.unwrap();
        assert_eq!(result.response, "from the other");
        assert_eq!(server.finish().len(), 5);
    }
}
