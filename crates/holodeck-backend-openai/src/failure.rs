//! Translates errors of endpoints, which come in many shapes, into backend errors with cause, place and hint, and
//! decides which may be retried.

use holodeck_backend_api::{BackendError, Explanation};
use holodeck_http::{ConnectReason, HttpError};
use serde_json::Value;

use crate::Endpoint;

/// The details of an endpoint's error, which comes in several usual shapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorDetails {
    pub(crate) message: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) param: Option<String>,
}

impl ErrorDetails {
    /// Reads the body of an error.
    pub(crate) fn of_body(body: &str) -> Self {
        serde_json::from_str(body).map_or_else(|_not_json| Self::default(), |value| Self::of(&value))
    }

    /// Reads the value of an error, or an object that contains one.
    pub(crate) fn of(value: &Value) -> Self {
        // Some servers send a list with one error.
        let value = value.get(0).unwrap_or(value);
        let error = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        let text = |key: &str| error.get(key).and_then(plain_text);
        let message = text("message")
            .or_else(|| text("detail"))
            .or_else(|| error.as_str().map(str::to_owned));
        let known = Self {
            message,
            code: text("code").or_else(|| text("type")),
            param: text("param"),
        };
        if known.message.is_some() {
            return known;
        }
        // Envelopes around the error: a list of several, FastAPI's, or a status beside the answer.
        let nested = ["errors", "detail"]
            .into_iter()
            .find_map(|name| error.get(name)?.get(0));
        let nested = nested.or_else(|| error.get("base_resp"));
        nested.map_or(known, |error| {
            let text = |keys: [&str; 3]| keys.into_iter().find_map(|key| plain_text(error.get(key)?));
            Self {
                message: text(["message", "msg", "status_msg"]),
                code: text(["code", "type", "status_code"]),
                param: None,
            }
        })
    }
}

/// A string or a number as text.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Converts an error of the transport to a backend error with cause, place and hint.
pub(crate) fn of_http(error: &HttpError, endpoint: &Endpoint, body: &Value) -> BackendError {
    match error {
        HttpError::Connect { url, reason } => {
            let message = format!(
                "the model endpoint did not answer\n  {url}: {reason}\n  {}",
                endpoint.origin(),
            );
            let explanation = Explanation::new(message).with_hint(hint_when_unreachable(reason, endpoint));
            provider(None, ErrorDetails::default(), explanation, error)
        }
        HttpError::Status {
            status, body: text, ..
        } => {
            let mut details = ErrorDetails::of_body(text);
            details.param = details.param.or_else(|| named_parameter(*status, text, body));
            let mut explanation = Explanation::new(error.to_string());
            if let Some(hint) = hint_for_status(*status, &details, endpoint) {
                explanation.message = format!("{error}\n  {}", endpoint.origin());
                explanation.hint = Some(hint);
            }
            let is_key = *status == 400 && is_about_key(&text.to_lowercase());
            if is_key {
                explanation.hint = Some(endpoint.hint_for_key());
            }
            provider(
                Some(if is_key { 401 } else { *status }),
                details,
                explanation,
                error,
            )
        }
        HttpError::Timeout { after, .. } => BackendError::Timeout {
            after: *after,
            cause: None,
        },
        HttpError::Unexpected { .. } => incompatible(&error.to_string(), endpoint),
        HttpError::TooLarge { .. } => {
            BackendError::protocol(Explanation::new(error.to_string()).with_source(error.clone()))
                .with_hint("`model.max_tokens` limits the length of an answer")
        }
        other => BackendError::protocol(other.to_string()),
    }
}

/// The error for an answer that does not follow the protocol.
pub(crate) fn incompatible(what: &str, endpoint: &Endpoint) -> BackendError {
    BackendError::protocol(format!("{what}\n  {}", endpoint.origin()))
        .with_hint("does `model.endpoint` name an OpenAI-compatible API?")
}

/// The error for an interrupted answer.
pub(crate) fn of_stream(error: &HttpError, endpoint: &Endpoint, body: &Value) -> BackendError {
    match error {
        HttpError::Body { reason, .. } => BackendError::ended_early_by(reason),
        other => of_http(other, endpoint, body),
    }
}

/// The error that a stream reports. If its code is a status, that status is used.
pub(crate) fn in_stream(value: &Value, endpoint: &Endpoint) -> BackendError {
    let details = ErrorDetails::of(value);
    let status = details.code.as_deref().and_then(|code| code.parse().ok());
    let message = details.message.clone().unwrap_or_else(|| value.to_string());
    BackendError::Provider {
        status: Some(status.filter(|status| (400..600).contains(status)).unwrap_or(200)),
        code: details.code,
        explanation: format!("{} sent an error in its answer: {message}", endpoint.url()).into(),
        param: details.param,
        retryable: false,
        retry_after: None,
    }
}

/// Whether the endpoint refused a request because it is longer than the model's context. There is no common code: the
/// texts are those of OpenAI, Azure, vLLM, llama.cpp, Mistral, Groq, Together and OpenRouter.
pub(crate) fn is_too_long(error: &BackendError) -> bool {
    let BackendError::Provider {
        status: Some(200 | 400 | 413 | 422),
        code,
        explanation,
        ..
    } = error
    else {
        return false;
    };
    code.as_deref().is_some_and(is_about_length) || is_about_length(&explanation.message.to_lowercase())
}

/// Whether a text, in lower case, says that the request is too long.
pub(crate) fn is_about_length(text: &str) -> bool {
    let texts = [
        "context_length_exceeded",
        "exceed_context_size_error",
        "context length",
        "context window",
        "context size",
        "prompt is too long",
        "input is too long",
        "reduce the length of the messages",
    ];
    texts.iter().any(|part| text.contains(part))
}

/// Whether a text, in lower case, says that a filter refused the request.
pub(crate) fn is_about_content(text: &str) -> bool {
    ["content_filter", "content_policy_violation"]
        .iter()
        .any(|code| text.contains(code))
}

/// Whether a text, in lower case, says that the key is wrong. Some servers say so with 400.
pub(crate) fn is_about_key(text: &str) -> bool {
    [
        "api_key_invalid",
        "invalid_api_key",
        "api key not valid",
        "invalid api key",
    ]
    .iter()
    .any(|part| text.contains(part))
}

/// The message of a filter that refused the request itself: the model's side declines, as a filter of answers does.
pub(crate) fn refused_by_filter(error: &HttpError) -> Option<String> {
    let body = error.body().filter(|_| error.status() == Some(400))?;
    let details = ErrorDetails::of_body(body);
    let code = details.code.as_deref().unwrap_or_default().to_lowercase();
    is_about_content(&code).then(|| details.message.unwrap_or(code))
}

/// The error for a complete answer that reports its own failure.
pub(crate) fn of_answer(message: String) -> BackendError {
    BackendError::Provider {
        status: Some(200),
        code: None,
        explanation: message.into(),
        param: None,
        retryable: false,
        retry_after: None,
    }
}

/// An exhausted quota has the status of a rate limit, but retrying does not help.
pub(crate) fn is_final(error: &HttpError) -> bool {
    let quota = ["insufficient_quota", "billing_hard_limit_reached"];
    error.status() == Some(429)
        && error
            .body()
            .is_some_and(|body| quota.iter().any(|code| body.contains(code)))
}

fn names_stream(error: &HttpError) -> bool {
    error
        .body()
        .is_some_and(|body| is_about_streaming(&body.to_lowercase()))
}

/// Whether a text, in lower case, is about streaming; `upstream` is another word.
pub(crate) fn is_about_streaming(text: &str) -> bool {
    let mut words = text.split(|character: char| !character.is_ascii_alphanumeric());
    words.any(|word| word.starts_with("stream") || word == "sse")
}

/// Whether a retry cannot help. An endpoint that refuses the first connection is down, not busy; an error of the server
/// may be the refusal of a part of the request, which is tried in another form.
pub(crate) fn is_no_reason_to_retry(error: &HttpError, reached: bool, may_change: bool) -> bool {
    let down = matches!(
        error,
        HttpError::Connect {
            reason: ConnectReason::Refused | ConnectReason::Dns(_),
            ..
        }
    );
    (down && !reached)
        || (error.status() == Some(500) && (may_change || names_stream(error)))
        || is_final(error)
}

fn provider(
    status: Option<u16>,
    details: ErrorDetails,
    explanation: Explanation,
    error: &HttpError,
) -> BackendError {
    BackendError::Provider {
        status,
        code: details.code,
        explanation: Box::new(explanation.with_source(error.clone())),
        param: details.param,
        retryable: error.retryable() && !is_final(error),
        retry_after: error.retry_after(),
    }
}

/// The parameter of the request that the text of a refusal names.
fn named_parameter(status: u16, text: &str, body: &Value) -> Option<String> {
    if !matches!(status, 400 | 422) {
        return None;
    }
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let keys = body.as_object()?.keys();
    // `model`, `messages` and `tools` are also ordinary words in error texts.
    let mut distinctive = keys.filter(|key| key.contains('_') || *key == "temperature");
    distinctive.find(|key| words.contains(&key.as_str())).cloned()
}

fn hint_for_status(status: u16, details: &ErrorDetails, endpoint: &Endpoint) -> Option<String> {
    match status {
        401 | 403 => Some(endpoint.hint_for_key()),
        404 if endpoint.is_ollama() => Some(
            "is the model installed? `ollama list` shows installed models, `ollama pull` downloads one"
                .to_owned(),
        ),
        404 => {
            Some("is `model.name` right, and does the endpoint serve `/chat/completions` there?".to_owned())
        }
        429 if matches!(details.code.as_deref(), Some("insufficient_quota")) => {
            Some("the account has no credit left".to_owned())
        }
        429 => Some("lower `model.rpm` or `execution.parallel_test_cases`".to_owned()),
        500..=599 => Some("the server failed; check its log, or try again later".to_owned()),
        300..=399 => Some("set `model.endpoint` to the address it redirects to".to_owned()),
        _ => None,
    }
}

fn hint_when_unreachable(reason: &ConnectReason, endpoint: &Endpoint) -> String {
    reason
        .hint()
        .map_or_else(|| endpoint.hint_when_down(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn error_details_in_the_usual_shapes() {
        for (body, message, code, param) in [
            (
                r#"{"error":{"message":"no","type":"t","param":"temperature","code":"c"}}"#,
                Some("no"),
                Some("c"),
                Some("temperature"),
            ),
            (
                r#"{"error":{"message":"no","type":"t","code":null}}"#,
                Some("no"),
                Some("t"),
                None,
            ),
            (r#"{"error":"no"}"#, Some("no"), None, None),
            (
                r#"{"object":"error","message":"no","code":400}"#,
                Some("no"),
                Some("400"),
                None,
            ),
            (r#"{"detail":"no"}"#, Some("no"), None, None),
            (
                r#"{"detail":[{"msg":"no","type":"t"},{"msg":"other"}]}"#,
                Some("no"),
                Some("t"),
                None,
            ),
            (
                r#"{"result":null,"success":false,"errors":[{"code":7003,"message":"no"}],"messages":[]}"#,
                Some("no"),
                Some("7003"),
                None,
            ),
            (
                r#"{"base_resp":{"status_code":1004,"status_msg":"no"}}"#,
                Some("no"),
                Some("1004"),
                None,
            ),
            (r#"{"detail":[]}"#, None, None, None),
            (r#"{"errors":"no"}"#, None, None, None),
            ("<html>", None, None, None),
        ] {
            let expected = ErrorDetails {
                message: message.map(str::to_owned),
                code: code.map(str::to_owned),
                param: param.map(str::to_owned),
            };
            assert_eq!(ErrorDetails::of_body(body), expected, "{body}");
        }
    }

    #[test]
    fn a_parameter_named_in_the_text() {
        let body = json!({"messages": [], "temperature": 0.1, "max_tokens": 5});
        for (text, expected) in [
            (
                "Unsupported parameter: 'max_tokens' is not supported",
                Some("max_tokens"),
            ),
            ("`temperature` does not support 0.1", Some("temperature")),
            ("Unrecognized request argument supplied: top_p", None),
            ("these messages are too long", None),
        ] {
            assert_eq!(named_parameter(400, text, &body).as_deref(), expected, "{text}");
        }
        assert_eq!(named_parameter(500, "max_tokens", &body), None);
    }
}
