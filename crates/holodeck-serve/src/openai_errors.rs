//! Errors in the form that OpenAI clients read, on all addresses that such clients ask for, also before a handler runs.

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::problem::Problem;

/// The first parts of the addresses of OpenAI's interface, below `/v1/`, also of those that do not exist here. Those
/// of HoloDeck's own interface are not among them.
const FAMILY: [&str; 14] = [
    "assistants",
    "audio",
    "batches",
    "chat",
    "completions",
    "embeddings",
    "fine_tuning",
    "images",
    "models",
    "moderations",
    "realtime",
    "responses",
    "threads",
    "vector_stores",
];

/// Gives errors on these addresses their form; everything else of the response stays.
pub(crate) async fn translate(request: Request, next: Next) -> Response {
    let first = request.uri().path().strip_prefix("/v1/");
    let first = first.and_then(|rest| rest.split('/').next());
    let is_of_family = first.is_some_and(|first| FAMILY.contains(&first));
    let mut response = next.run(request).await;
    if is_of_family && let Some(problem) = response.extensions_mut().remove::<Problem>() {
        *response.body_mut() = Body::from(error_body(&problem).to_string());
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

/// An error as OpenAI clients read it.
pub(crate) fn error_body(problem: &Problem) -> Value {
    let kind = match problem.status() {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    let code = match problem.code() {
        "UNAUTHORIZED" => "invalid_api_key".to_owned(),
        "AGENT_NOT_FOUND" => "model_not_found".to_owned(),
        other => other.to_lowercase(),
    };
    json!({ "error": {
        "message": problem.detail(),
        "type": kind,
        "param": problem.param(),
        "code": code,
    }})
}
