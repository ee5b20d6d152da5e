use std::fmt::Write as _;

use holodeck_backend_api::BackendError;
use holodeck_http::{ConnectReason, HttpError};
use serde_json::Value;

use crate::Endpoint;

/// What an endpoint says is wrong, in whichever of the usual shapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) message: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) param: Option<String>,
}

impl Complaint {
    /// Reads the body of an error.
    pub(crate) fn of_body(body: &str) -> Self {
        serde_json::from_str(body).map_or_else(|_not_json| Self::default(), |value| Self::of(&value))
    }

    /// Reads the value of an error, or an object that holds one.
    pub(crate) fn of(value: &Value) -> Self {
        let error = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        let text = |key: &str| error.get(key).and_then(plain);
        let message = text("message")
            .or_else(|| text("detail"))
            .or_else(|| error.as_str().map(str::to_owned));
        Self {
            message,
            code: text("code").or_else(|| text("type")),
            param: text("param"),
        }
    }
}

/// A text or a number as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// An error of the transport in the contract's terms, with the cause, the place and the next step.
pub(crate) fn of_http(error: &HttpError, endpoint: &Endpoint, body: &Value) -> BackendError {
    match error {
        HttpError::Connect { url, reason } => {
            let message = format!(
                "the model endpoint did not answer\n  {url}: {reason}\n  {}\n\nhint: {}",
                endpoint.origin(),
                hint_when_unreachable(reason, endpoint),
            );
            provider(None, Complaint::default(), message, error)
        }
        HttpError::Status {
            status, body: said, ..
        } => {
            let mut complaint = Complaint::of_body(said);
            complaint.param = complaint.param.or_else(|| named_parameter(*status, said, body));
            let mut message = error.to_string();
            if let Some(hint) = hint_for_status(*status, &complaint, endpoint) {
                let _ = write!(message, "\n  {}\n\nhint: {hint}", endpoint.origin());
            }
            provider(Some(*status), complaint, message, error)
        }
        HttpError::Timeout { after, .. } => BackendError::Timeout {
            after: *after,
            cause: None,
        },
        HttpError::Unexpected { .. } => incompatible(&error.to_string(), endpoint),
        HttpError::TooLarge { .. } => BackendError::Protocol {
            message: format!("{error}\n\nhint: `model.max_tokens` limits the length of an answer"),
        },
        other => BackendError::Protocol {
            message: other.to_string(),
        },
    }
}

/// An answer that is none in this protocol.
pub(crate) fn incompatible(what: &str, endpoint: &Endpoint) -> BackendError {
    BackendError::Protocol {
        message: format!(
            "{what}\n  {}\n\nhint: does `model.endpoint` name an OpenAI-compatible API?",
            endpoint.origin()
        ),
    }
}

/// An answer that broke off.
pub(crate) fn of_stream(error: &HttpError, endpoint: &Endpoint, body: &Value) -> BackendError {
    match error {
        HttpError::Body { reason, .. } => BackendError::ended_early_by(reason),
        other => of_http(other, endpoint, body),
    }
}

/// An error told inside a stream. A status hidden in its code is believed.
pub(crate) fn in_stream(value: &Value, endpoint: &Endpoint) -> BackendError {
    let complaint = Complaint::of(value);
    let status = complaint.code.as_deref().and_then(|code| code.parse().ok());
    let said = complaint.message.clone().unwrap_or_else(|| value.to_string());
    BackendError::Provider {
        status: Some(status.filter(|status| (400..600).contains(status)).unwrap_or(200)),
        code: complaint.code,
        message: format!("{} sent an error in its answer: {said}", endpoint.url()),
        param: complaint.param,
        retryable: false,
        retry_after: None,
    }
}

/// An answer that arrived whole and reports its own failure.
pub(crate) fn of_answer(message: String) -> BackendError {
    BackendError::Provider {
        status: Some(200),
        code: None,
        message,
        param: None,
        retryable: false,
        retry_after: None,
    }
}

/// A quota that is used up looks like a rate limit but does not pass.
pub(crate) fn is_final(error: &HttpError) -> bool {
    let quota = ["insufficient_quota", "billing_hard_limit_reached"];
    error.status() == Some(429)
        && error
            .body()
            .is_some_and(|body| quota.iter().any(|code| body.contains(code)))
}

/// As [`is_final`], and an endpoint that nobody has heard from yet is down, not busy.
pub(crate) fn is_final_at_first(error: &HttpError) -> bool {
    let down = matches!(
        error,
        HttpError::Connect {
            reason: ConnectReason::Refused | ConnectReason::Dns(_),
            ..
        }
    );
    down || is_final(error)
}

fn provider(status: Option<u16>, complaint: Complaint, message: String, error: &HttpError) -> BackendError {
    BackendError::Provider {
        status,
        code: complaint.code,
        message,
        param: complaint.param,
        retryable: error.retryable() && !is_final(error),
        retry_after: error.retry_after(),
    }
}

/// The request's parameter that a refusal names only in its words.
fn named_parameter(status: u16, said: &str, body: &Value) -> Option<String> {
    if !matches!(status, 400 | 422) {
        return None;
    }
    let words: Vec<&str> = said
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let keys = body.as_object()?.keys();
    // `model`, `messages` and `tools` are also plain words of any complaint.
    let mut telling = keys.filter(|key| key.contains('_') || *key == "temperature");
    telling.find(|key| words.contains(&key.as_str())).cloned()
}

fn hint_for_status(status: u16, complaint: &Complaint, endpoint: &Endpoint) -> Option<String> {
    match status {
        401 | 403 => Some(endpoint.hint_for_key()),
        404 if endpoint.is_ollama() => {
            Some("is the model there? `ollama list` shows those that are, `ollama pull` gets one".to_owned())
        }
        404 => {
            Some("is `model.name` right, and does the endpoint serve `/chat/completions` there?".to_owned())
        }
        429 if matches!(complaint.code.as_deref(), Some("insufficient_quota")) => {
            Some("the account has no credit left".to_owned())
        }
        429 => Some("lower `model.rpm` or `execution.parallel_test_cases`".to_owned()),
        500..=599 => Some("the server failed; its own log says why, or it recovers later".to_owned()),
        300..=399 => Some("write the address it redirects to as `model.endpoint`".to_owned()),
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
    fn complaints_in_the_usual_shapes() {
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
            (r#"{"detail":[{"msg":"no"}]}"#, None, None, None),
            ("<html>", None, None, None),
        ] {
            let expected = Complaint {
                message: message.map(str::to_owned),
                code: code.map(str::to_owned),
                param: param.map(str::to_owned),
            };
            assert_eq!(Complaint::of_body(body), expected, "{body}");
        }
    }

    #[test]
    fn a_parameter_named_only_in_words() {
        let body = json!({"messages": [], "temperature": 0.1, "max_tokens": 5});
        for (said, expected) in [
            (
                "Unsupported parameter: 'max_tokens' is not supported",
                Some("max_tokens"),
            ),
            ("`temperature` does not support 0.1", Some("temperature")),
            ("Unrecognized request argument supplied: top_p", None),
            ("these messages are too long", None),
        ] {
            assert_eq!(named_parameter(400, said, &body).as_deref(), expected, "{said}");
        }
        assert_eq!(named_parameter(500, "max_tokens", &body), None);
    }
}
