//! Translates errors of endpoints, which come in many shapes, into backend errors with cause, place and hint, and
//! decides which may be retried.

use std::{
    error::Error,
    fmt::{self, Display},
    time::Duration,
};

use holodeck_backend_api::{BackendError, Explanation};
use holodeck_http::{Beginning, ConnectReason, HttpError, long_wait, retry_delay};
use serde_json::Value;

use crate::Endpoint;

/// The details of an endpoint's error, which comes in several usual shapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorDetails {
    pub(crate) message: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) param: Option<String>,
    /// The status that an error in an answer would have had as an answer of its own.
    pub(crate) status: Option<u16>,
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
            status: status_in(error).or_else(|| status_in(value)),
        };
        let status = known.status;
        if known.message.is_some() {
            return known;
        }
        // An error whose message is another one.
        if let Some(inner) = error.get("message").filter(|inner| inner.is_object()) {
            let inner = Self::of(inner);
            return Self {
                status: inner.status.or(status),
                ..inner
            };
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
                param: error.get("loc").and_then(path_of),
                status: status_in(error).or(status),
            }
        })
    }
}

/// The place in the request that FastAPI names in segments.
fn path_of(place: &Value) -> Option<String> {
    let segments = place.as_array()?.iter().filter_map(plain_text);
    let path = segments
        .filter(|segment| segment != "body")
        .collect::<Vec<_>>()
        .join(".");
    (!path.is_empty()).then_some(path)
}

/// The status that an error names, as a number or as the usual word for it.
fn status_in(error: &Value) -> Option<u16> {
    let names = [
        "status",
        "status_code",
        "code",
        "http_status",
        "error_code",
        "type",
    ];
    let named = || names.iter().filter_map(|name| plain_text(error.get(name)?));
    let numbers = || named().filter_map(|text| text.trim().parse().ok());
    let words = || named().find_map(|word| status_of(&word));
    numbers()
        .find(|status| (400..600).contains(status))
        .or_else(words)
}

/// The status of an error that passes, by the word for it.
fn status_of(word: &str) -> Option<u16> {
    let letters = word.chars().filter(char::is_ascii_alphanumeric);
    let word: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    if has(&[
        "ratelimit",
        "toomanyrequests",
        "resourceexhausted",
        "throttl",
        "insufficientquota",
    ]) {
        return Some(429);
    }
    has(&["overloaded", "unavailable"]).then_some(503)
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
        HttpError::Encoded { .. } => incompatible(&error.to_string(), endpoint).with_hint(ENCODING_HINT),
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
pub(crate) fn of_stream(
    error: &HttpError,
    endpoint: &Endpoint,
    beginning: &Beginning,
    body: &Value,
) -> BackendError {
    match error {
        HttpError::Body { reason, .. } => ended_early(format_args!("{reason}\n  {endpoint} {beginning}")),
        other => of_http(other, endpoint, body),
    }
}

/// The error for a stream that ended early for this reason.
pub(crate) fn ended_early(reason: impl Display) -> BackendError {
    BackendError::ended_early_by(reason)
        .with_hint("did the server, or a proxy in front of it, end the connection? its log may say why")
}

/// The words of an error that an answer reports, without those around it here: only they can refuse a part of a request.
#[derive(Debug)]
pub(crate) struct Reported(pub(crate) String);

impl Display for Reported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Reported {}

/// The error that an answer reports. It counts as an answer with the status that it names.
pub(crate) fn in_stream(value: &Value, endpoint: &Endpoint) -> BackendError {
    let details = ErrorDetails::of(value);
    let error = value.get("error").filter(|error| !error.is_null());
    let reported = Reported(
        details
            .message
            .clone()
            .unwrap_or_else(|| error.unwrap_or(value).to_string()),
    );
    let message = details.message.clone().unwrap_or_else(|| value.to_string());
    let mut explanation = Explanation::new(format!(
        "{} sent an error in its answer: {message}",
        endpoint.url()
    ));
    explanation = explanation.with_source(reported);
    explanation.hint = details
        .status
        .and_then(|status| hint_for_status(status, &details, endpoint));
    BackendError::Provider {
        status: Some(details.status.unwrap_or(200)),
        code: details.code,
        explanation: Box::new(explanation),
        param: details.param,
        retryable: false,
        retry_after: retry_delay(value),
    }
}

/// An error in an answer as the answer of its own that it would have been, if it may pass. One that names a wait and no status
/// passes too.
pub(crate) fn as_status(error: &BackendError, endpoint: &Endpoint) -> Option<HttpError> {
    let BackendError::Provider {
        status: Some(status),
        code,
        retry_after,
        explanation,
        ..
    } = error
    else {
        return None;
    };
    // Its own words: an address has others.
    let reported = explanation
        .source
        .as_ref()
        .and_then(|source| source.downcast_ref());
    let words = reported.map_or(&explanation.message, |Reported(words)| words);
    let body = format!("{words} {}", code.as_deref().unwrap_or_default());
    if is_permanent(&body.to_lowercase()) {
        return None;
    }
    let status = match (status, retry_after) {
        (200, Some(_)) => 503,
        (status, _) => *status,
    };
    let as_status = HttpError::Status {
        url: endpoint.url.clone(),
        status,
        body,
        retry_after: *retry_after,
    };
    (as_status.retryable() && !is_final(&as_status)).then_some(as_status)
}

/// Whether an error, in lower case, says that the same request has the same end whenever it is sent.
fn is_permanent(text: &str) -> bool {
    let codes = [
        "invalid_request",
        "authentication",
        "permission",
        "not_found",
        "billing",
    ];
    is_about_length(text)
        || is_about_content(text)
        || is_about_key(text)
        || codes.iter().any(|code| text.contains(code))
}

/// The error in an answer whose headers ask for this wait.
pub(crate) fn with_wait(
    mut error: BackendError,
    wait: Option<Duration>,
    endpoint: &Endpoint,
) -> BackendError {
    if let BackendError::Provider {
        explanation,
        retry_after,
        ..
    } = &mut error
    {
        *retry_after = wait.or(*retry_after);
        explanation.message.push_str(&long_wait(*retry_after));
    }
    let passes = as_status(&error, endpoint).is_some();
    if let BackendError::Provider { retryable, .. } = &mut error {
        *retryable = passes;
    }
    error
}

/// The error of an answer, with the server that sent it and how the answer begins.
pub(crate) fn with_beginning(
    error: BackendError,
    endpoint: &Endpoint,
    beginning: &Beginning,
) -> BackendError {
    change_explanation(error, |explanation| {
        explanation.message = format!("{}\n  {endpoint} {beginning}", explanation.message);
    })
}

/// The error without the secrets of its request, which a server may echo.
pub(crate) fn masked(error: BackendError, endpoint: &Endpoint) -> BackendError {
    let mut error = change_explanation(error, |explanation| {
        explanation.message = endpoint.mask(&explanation.message);
    });
    if let BackendError::Provider { code, param, .. } = &mut error {
        for text in [code, param].into_iter().flatten() {
            *text = endpoint.mask(text);
        }
    }
    error
}

fn change_explanation(mut error: BackendError, change: impl FnOnce(&mut Explanation)) -> BackendError {
    if let BackendError::Protocol(explanation) | BackendError::Provider { explanation, .. } = &mut error {
        change(explanation);
    }
    error
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

/// Whether a text, in lower case, says that the content of the request breaks a rule, in the words of filters without a code.
pub(crate) fn is_about_policy(text: &str) -> bool {
    [
        "content policy",
        "content management policy",
        "usage polic",
        "invalid_prompt",
        "flagged",
        "moderation",
        "inappropriate content",
        "data_inspection_failed",
        "prohibited_content",
    ]
    .iter()
    .any(|part| text.contains(part))
}

/// Whether a text, in lower case, says that too much was asked in a time.
pub(crate) fn is_about_quota(text: &str) -> bool {
    [
        "rate limit",
        "rate_limit",
        "too many requests",
        "quota",
        "resource_exhausted",
    ]
    .iter()
    .any(|part| text.contains(part))
}

/// Whether a text, in lower case, says that the key is wrong. Some servers say so with 400.
pub(crate) fn is_about_key(text: &str) -> bool {
    [
        "api_key_invalid",
        "invalid_api_key",
        "api key not valid",
        "invalid api key",
        "incorrect api key",
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

/// The next step after calls that cannot be read.
pub(crate) const CALLS_HINT: &str = "does the server read the tool calls of this model? Some need an option for it, such as vLLM's \
                                     `--tool-call-parser` or llama.cpp's `--jinja`";

/// The next step after an answer in an encoding that is not read here.
const ENCODING_HINT: &str = "switch off the compression of answers at the server, or at the proxy in front of it: requests do not ask for one";

/// The next step after an answer that ended too early.
pub(crate) const CUT_HINT: &str = "`model.max_tokens` limits the length of an answer";

/// The error for tool calls that cannot be read.
pub(crate) fn of_calls(message: impl Into<String>) -> BackendError {
    BackendError::protocol(Explanation::new(message).with_hint(CALLS_HINT))
}

/// The error for a complete answer that reports its own failure, with the next step.
pub(crate) fn of_answer(message: impl Into<String>, hint: &str) -> BackendError {
    BackendError::Provider {
        status: Some(200),
        code: None,
        explanation: Box::new(Explanation::new(message).with_hint(hint)),
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
    let status = error.status().unwrap_or_default();
    error
        .body()
        .is_some_and(|body| refuses_streaming(status, &body.to_lowercase()))
}

/// Whether a text, in lower case, refuses to stream. A failure may be that of a stream, and a name may have the word: there it
/// must also say that something cannot be.
pub(crate) fn refuses_streaming(status: u16, text: &str) -> bool {
    let words = [
        "support",
        "cannot",
        "can't",
        "can not",
        "must be",
        "allow",
        "disable",
        "only",
        "accept",
        "permitted",
        "unknown",
        "unexpected",
        "unrecognized",
        "extra",
    ];
    let is_certain = matches!(status, 400 | 405 | 415 | 422 | 501);
    is_about_streaming(text) && (is_certain || words.iter().any(|word| text.contains(word)))
}

/// Whether a text, in lower case, is about streaming; `upstream` is another word.
fn is_about_streaming(text: &str) -> bool {
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
pub(crate) fn named_parameter(status: u16, text: &str, body: &Value) -> Option<String> {
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

/// The next step after a failure of the server.
pub(crate) const SERVER_FAILED: &str = "the server failed; check its log, or try again later";

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
        500..=599 => Some(SERVER_FAILED.to_owned()),
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
mod tests;
