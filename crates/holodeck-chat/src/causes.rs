//! Errors as people on the web may read them: their kind, without addresses, files and settings of the server. The causes
//! go to the operator, never into an event.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, EventStream, Explanation, Outcome};

/// Receives the cause of each error that the events of a run only name by its kind.
pub type CauseSink = Arc<dyn Fn(&BackendError) + Send + Sync>;

/// The events of `events` with errors that show only their kind; `sink` receives them whole.
pub(crate) fn hide_causes<'a>(events: EventStream<'a>, sink: &CauseSink) -> EventStream<'a> {
    let sink = Arc::clone(sink);
    Box::pin(events.map(move |event| {
        event.map(hide_in_event).map_err(|error| {
            if !matches!(error, BackendError::Cancelled) {
                sink(&error);
            }
            public_error(error)
        })
    }))
}

fn hide_in_event(event: BackendEvent) -> BackendEvent {
    match event {
        // Such a notice names the cause before the wait.
        BackendEvent::Notice { message } => BackendEvent::Notice {
            message: without_addresses(&message),
        },
        BackendEvent::Retrying { cause: _, wait } => BackendEvent::Retrying {
            cause: NO_ANSWER.to_owned(),
            wait,
        },
        BackendEvent::End(mut result) => {
            if let Outcome::ToolFailed {
                reason: Some(reason), ..
            } = &mut result.outcome
            {
                *reason = without_addresses(reason);
            }
            BackendEvent::End(result)
        }
        BackendEvent::Nested {
            parent_call_id,
            event,
        } => BackendEvent::Nested {
            parent_call_id,
            event: Box::new(hide_in_event(*event)),
        },
        other => other,
    }
}

const NO_ANSWER: &str = "the model did not answer";

/// The same kind of error without what it shows of the server.
fn public_error(error: BackendError) -> BackendError {
    let plain = |message: &str| Box::new(Explanation::new(message));
    match error {
        BackendError::Init(_) => BackendError::Init(plain("the agent could not start")),
        BackendError::Config(_) => BackendError::Config(plain("the agent can't be used as it is configured")),
        BackendError::Session(_) => {
            BackendError::Session(plain("the conversation with the model was interrupted"))
        }
        BackendError::Protocol(_) if error.is_truncated() => BackendError::ended_early(),
        BackendError::Protocol(_) => BackendError::Protocol(plain("the model's answer can't be read")),
        BackendError::ReplayMiss(_) => {
            BackendError::ReplayMiss(plain("the recording contains no answer to this message"))
        }
        BackendError::Terminated { .. } => BackendError::Terminated {
            detail: "the server's log says more".to_owned(),
        },
        BackendError::Timeout { after, cause } => BackendError::Timeout {
            after,
            cause: cause.map(|_| NO_ANSWER.to_owned()),
        },
        BackendError::Provider {
            status,
            code,
            explanation: _,
            param: _,
            retryable,
            retry_after,
        } => BackendError::Provider {
            explanation: match status {
                Some(status) => plain(&format!("the model answered with the status {status}")),
                None => plain("the model can't be reached"),
            },
            status,
            code,
            param: None,
            retryable,
            retry_after,
        },
        BackendError::Tool { name, reason } => BackendError::Tool {
            name,
            reason: without_addresses(&reason),
        },
        // What is unknown may contain anything.
        BackendError::Cancelled => BackendError::Cancelled,
        _ => BackendError::session("the agent did not answer"),
    }
}

/// A text whose words that contain an address are left out.
fn without_addresses(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let shown = words.map(|word| {
        if !word.contains("://") {
            return word.to_owned();
        }
        let end = word.trim_end().len();
        format!("(address){}", word.get(end..).unwrap_or_default())
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use holodeck_model::{Location, Span};

    use super::*;

    /// Errors of every kind, each of which shows an address and a place in a file in all its texts.
    fn errors() -> Vec<BackendError> {
        const SECRET: &str = "cannot reach http://10.0.0.7:9/v1 (set at secret.yaml:3:4)";
        let whole = || {
            Box::new(Explanation {
                place: Some(Location {
                    path: Path::new("secret.yaml").into(),
                    line: 3,
                    column: 4,
                    span: Span { start: 0, end: 1 },
                }),
                ..Explanation::new(SECRET)
                    .with_hint(SECRET)
                    .with_source(std::io::Error::other(SECRET))
            })
        };
        let provider = |status| BackendError::Provider {
            status,
            code: None,
            explanation: whole(),
            param: Some(SECRET.to_owned()),
            retryable: true,
            retry_after: None,
        };
        vec![
            BackendError::Init(whole()),
            BackendError::Config(whole()),
            BackendError::Session(whole()),
            BackendError::Protocol(whole()),
            BackendError::ReplayMiss(whole()),
            BackendError::ended_early_by(SECRET),
            BackendError::no_result(),
            BackendError::Terminated {
                detail: SECRET.to_owned(),
            },
            BackendError::Timeout {
                after: Duration::from_secs(1),
                cause: Some(SECRET.to_owned()),
            },
            provider(None),
            provider(Some(500)),
            BackendError::Cancelled,
        ]
    }

    #[test]
    fn an_error_of_any_kind_shows_no_address_and_no_file_and_stays_of_its_kind() {
        for error in errors() {
            let (kind, is_truncated, is_retryable) = (
                std::mem::discriminant(&error),
                error.is_truncated(),
                error.is_retryable(),
            );
            let public = public_error(error);
            let all = format!("{public} {public:?} {}", public.explanation().text());
            for secret in ["10.0.0.7", "://", "yaml", "3:4"] {
                assert!(!all.contains(secret), "{all}");
            }
            assert_eq!(std::mem::discriminant(&public), kind, "{all}");
            assert_eq!(
                (public.is_truncated(), public.is_retryable()),
                (is_truncated, is_retryable),
                "{all}"
            );
        }
    }

    #[test]
    fn notices_keep_their_words_but_no_address() {
        for (text, expected) in [
            (
                "cannot reach http://10.0.0.7:9/v1; retrying in 6 s",
                "cannot reach (address) retrying in 6 s",
            ),
            ("`http://a/` refused\nit", "(address) refused\nit"),
            (
                "the oldest messages were left out",
                "the oldest messages were left out",
            ),
        ] {
            assert_eq!(without_addresses(text), expected);
        }
    }
}
