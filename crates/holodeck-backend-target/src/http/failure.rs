//! Describes a request that failed: the reason, the address, how the answer begins, and the next step. Secrets are masked.

use holodeck_backend_api::{BackendError, Explanation};
use holodeck_http::{ConnectReason, Exchange, HttpError, mask};

use super::{HttpAsker, Request};

/// How much of an answer is shown.
const SHOWN: usize = 200;

impl HttpAsker {
    /// The error with the place of the target in the YAML.
    pub(super) fn placed(&self, mut error: BackendError) -> BackendError {
        if let BackendError::Init(explanation)
        | BackendError::Config(explanation)
        | BackendError::Session(explanation)
        | BackendError::Protocol(explanation)
        | BackendError::Provider { explanation, .. } = &mut error
        {
            explanation.place = explanation.place.take().or_else(|| self.at.clone());
        }
        error
    }

    /// The error of a request.
    pub(crate) fn failure(&self, error: &HttpError) -> BackendError {
        let provider = |hint: Option<String>| BackendError::Provider {
            status: error.status(),
            code: None,
            explanation: Box::new(Explanation {
                hint,
                ..Explanation::new(match error {
                    HttpError::Connect { url, reason } => {
                        format!("the target did not answer\n  {url}: {reason}")
                    }
                    other => format!("the target refused the request: {other}"),
                })
            }),
            param: None,
            retryable: error.retryable(),
            retry_after: error.retry_after(),
        };
        self.placed(match error {
            HttpError::Connect { reason, .. } => provider(Some(match reason {
                ConnectReason::Refused => "is the service running, and is `target.url` right?".to_owned(),
                other => other.hint().unwrap_or("is `target.url` right?").to_owned(),
            })),
            HttpError::Status { status, .. } => provider(match status {
                401 | 403 => Some("are the credentials in `target.headers` right?".to_owned()),
                404 | 405 => Some("are `target.url` and `target.method` right?".to_owned()),
                400 | 415 | 422 => Some("is `target.body` what the service expects?".to_owned()),
                _ => None,
            }),
            HttpError::Timeout { after, .. } => BackendError::Timeout {
                after: *after,
                cause: None,
            },
            HttpError::Body { reason, .. } => BackendError::ended_early_by(reason),
            other => BackendError::protocol(other.to_string()),
        })
    }

    /// How an answer begins, without secrets of its request.
    fn beginning(bytes: &[u8], request: &Request) -> String {
        let start = String::from_utf8_lossy(bytes.get(..bytes.len().min(SHOWN * 4)).unwrap_or_default());
        let masked = mask(&start, &request.url, &request.headers);
        let shown: String = masked.trim().chars().take(SHOWN).collect();
        if shown.is_empty() {
            "is empty".to_owned()
        } else {
            format!("begins with `{}`", shown.escape_debug())
        }
    }

    pub(super) fn no_json(&self, bytes: &[u8], problem: &str, request: &Request) -> BackendError {
        let start =
            String::from_utf8_lossy(bytes.get(..bytes.len().min(SHOWN)).unwrap_or_default()).to_lowercase();
        let is_page = ["<!doctype html", "<html"]
            .iter()
            .any(|page| start.trim_start().starts_with(page));
        let what = if is_page {
            "a web page".to_owned()
        } else {
            format!("no JSON ({problem})")
        };
        let error = BackendError::protocol(format!(
            "the answer of {} is {what}; it {}",
            request.url,
            Self::beginning(bytes, request)
        ));
        self.placed(error.with_hint("is `target.url` the address that answers with JSON?"))
    }

    pub(crate) fn unfit(&self, problem: &str, bytes: &[u8], request: &Request) -> BackendError {
        let error = BackendError::protocol(format!(
            "{problem}; the answer {}",
            Self::beginning(bytes, request)
        ));
        self.placed(error)
    }

    pub(crate) async fn no_stream(&self, exchange: Exchange, request: &Request) -> BackendError {
        let kind = exchange
            .header("content-type")
            .unwrap_or("no content type")
            .to_owned();
        match exchange.bytes().await {
            Ok(bytes) => {
                let error = BackendError::protocol(format!(
                    "the answer of {} is no stream of events but {kind}; it {}",
                    request.url,
                    Self::beginning(&bytes, request)
                ));
                self.placed(error.with_hint(
                    "does the request ask for a stream? without one, write `response` in place of `stream`",
                ))
            }
            Err(error) => self.failure(&error),
        }
    }

    /// An error that the service reports in its answer.
    pub(super) fn reported(&self, message: &str) -> BackendError {
        let shown: String = message.chars().take(2000).collect();
        self.placed(BackendError::Provider {
            status: Some(200),
            code: None,
            explanation: Box::new(Explanation::new(format!("the target reported an error: {shown}"))),
            param: None,
            retryable: false,
            retry_after: None,
        })
    }
}
