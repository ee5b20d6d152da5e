//! An accepted response whose first bytes have arrived, and its conversion to JSON or events.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::Instant;

use crate::retry::{Attempts, retry_after};
use crate::{Body, BodyKind, HttpError, HttpUrl, SseStream, excerpt};

/// Bytes of every answer that are kept until it has ended.
const BEGINNING: usize = 512;

/// Bytes of an error answer that are kept.
pub(crate) const KEPT: usize = 8 * 1024;

/// A 2xx answer whose first bytes have arrived.
#[derive(Debug)]
pub struct Response {
    status: u16,
    headers: HeaderMap,
    body: Body,
    attempts: Attempts,
    max_event_bytes: usize,
    secrets: Secrets,
}

/// Values to redact in what is kept of an answer.
#[derive(Clone, Default)]
pub(crate) struct Secrets(pub(crate) Arc<[secrecy::SecretString]>);

impl Secrets {
    /// A whole text.
    pub(crate) fn excerpt(&self, bytes: &[u8]) -> String {
        self.excerpt_of(bytes, false)
    }

    /// A text that may be cut at its end: the part of a secret there is not shown.
    pub(crate) fn excerpt_of(&self, bytes: &[u8], is_cut: bool) -> String {
        let secrets: Vec<&str> = self.0.iter().map(secrecy::ExposeSecret::expose_secret).collect();
        excerpt::text(bytes, &secrets, is_cut)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Response {
    pub(crate) fn new(
        status: u16,
        headers: HeaderMap,
        body: Body,
        attempts: Attempts,
        max_event_bytes: usize,
        secrets: Secrets,
    ) -> Self {
        Self {
            status,
            headers,
            body,
            attempts,
            max_event_bytes,
            secrets,
        }
    }

    /// The HTTP status: 200 to 299, or one that the caller accepts.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The wait that the headers ask for.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers)
    }

    /// How many requests were sent, the retries included.
    pub fn attempts(&self) -> u32 {
        self.attempts.count
    }

    /// How long the pacer delayed the requests.
    pub fn paced(&self) -> Duration {
        self.attempts.paced
    }

    /// The deadline for reading the body.
    pub fn deadline(&self) -> Option<Instant> {
        self.attempts.deadline
    }

    /// Whether the answer is an event stream according to its content type.
    pub fn is_event_stream(&self) -> bool {
        is_event_stream(&self.headers)
    }

    /// The bytes that arrived first; more may follow.
    pub fn first_bytes(&self) -> &[u8] {
        self.body.first_bytes()
    }

    /// How the answer begins, for errors: shown only if it is needed.
    pub fn beginning(&self) -> Beginning {
        let first = self.first_bytes();
        Beginning {
            status: self.status,
            content_type: self.headers.get(CONTENT_TYPE).cloned(),
            // Copied, so that the buffer of the connection is free again.
            bytes: first.get(..BEGINNING).unwrap_or(first).into(),
            secrets: self.secrets.clone(),
        }
    }

    /// Whether the body begins as a stream of events.
    pub fn begins_as_events(&self) -> bool {
        let start = self.first_bytes().trim_ascii_start();
        [&b"data:"[..], b"event:", b"id:", b"retry:", b":"]
            .iter()
            .any(|field| start.starts_with(field))
    }

    /// The body as it arrives.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Removes the request's secrets from a server's text, which may echo them. Works after the body was read, too.
    pub fn masking(&self) -> impl Fn(&str) -> String + Send + 'static + use<> {
        let secrets = self.secrets.clone();
        move |text| secrets.excerpt(text.as_bytes())
    }

    /// The whole body.
    pub async fn bytes(self) -> Result<Bytes, HttpError> {
        self.body.collect().await
    }

    /// The whole body as JSON.
    pub async fn json(self) -> Result<Value, HttpError> {
        self.json_by(|bytes| serde_json::from_slice(bytes).ok()).await
    }

    /// The whole body as JSON, for a caller with a more lenient parser.
    pub async fn json_by(self, parse: impl FnOnce(&[u8]) -> Option<Value>) -> Result<Value, HttpError> {
        let url = self.body.url().clone();
        let bytes = self.body.collect().await?;
        parse(&bytes).ok_or_else(|| unexpected(url, "JSON", &bytes, false, &self.secrets))
    }

    /// The body as events. An answer with another content type is an error that names it, unless it begins as events do; one
    /// without a content type is accepted.
    pub async fn events(self) -> Result<SseStream, HttpError> {
        let is_accepted = self.is_event_stream() || !self.headers.contains_key(CONTENT_TYPE);
        if is_accepted || self.begins_as_events() {
            return Ok(SseStream::new(self.body, self.max_event_bytes));
        }
        let url = self.body.url().clone();
        let start = self.body.start(KEPT).await;
        Err(unexpected(
            url,
            "a stream of events",
            &start.bytes,
            start.is_cut,
            &self.secrets,
        ))
    }
}

/// The status, content type and first bytes of an answer. Displayed without the secrets of its request.
#[derive(Debug)]
pub struct Beginning {
    status: u16,
    content_type: Option<HeaderValue>,
    bytes: Box<[u8]>,
    secrets: Secrets,
}

impl fmt::Display for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 120;
        let kind = self.content_type.as_ref().and_then(|kind| kind.to_str().ok());
        let start = self.secrets.excerpt_of(&self.bytes, true);
        let start: String = start.chars().take(SHOWN).collect();
        write!(
            f,
            "answered {} ({}), which begins with `{}`",
            self.status,
            kind.unwrap_or("no content type"),
            start.trim().escape_debug()
        )
    }
}

pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn unexpected(
    url: HttpUrl,
    expected: &'static str,
    bytes: &[u8],
    is_cut: bool,
    secrets: &Secrets,
) -> HttpError {
    let start = bytes.get(..KEPT).unwrap_or(bytes);
    let body = secrets.excerpt_of(start, is_cut || start.len() < bytes.len());
    let found = if body.trim().is_empty() {
        BodyKind::Empty
    } else if excerpt::is_html(&body) {
        BodyKind::Html
    } else if expected != "JSON" && body.trim_start().starts_with(['{', '[']) {
        BodyKind::Json
    } else {
        BodyKind::Text
    };
    HttpError::Unexpected {
        url,
        expected,
        found,
        body,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn shown(text: &str, secret: &str) -> String {
        let bytes = text.as_bytes();
        let beginning = Beginning {
            status: 200,
            content_type: None,
            bytes: bytes.get(..BEGINNING).unwrap_or(bytes).into(),
            secrets: Secrets([secret.to_owned().into()].into()),
        };
        beginning.to_string()
    }

    #[test]
    fn a_beginning_is_shown_without_a_secret_wherever_it_is_cut() {
        for length in [4, 100, 600, 5_000] {
            let secret: String = ('a'..='z').cycle().take(length).collect();
            for before in 0..BEGINNING {
                let text = format!("{}{secret}", "-".repeat(before));
                let shown = shown(&text, &secret);
                assert!(!shown.contains("abcd"), "{length} after {before}: {shown}");
            }
        }
        let repeated = shown("the key is aXaXa", "aXaXa");
        assert_eq!(
            repeated,
            "answered 200 (no content type), which begins with `the key is ***`"
        );
    }
}
