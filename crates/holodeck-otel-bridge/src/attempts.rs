//! Sends a request again while its collector is busy: by OTLP's rules, within the time that the end of a run allows.

use std::{future::Future, time::Duration};

use holodeck_http::HttpError;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The first wait; it doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Upper limit of the waits that no server asked for.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The reason, without secrets.
    pub(crate) reason: String,
    /// The wait before another attempt; `None` if it would not help.
    pub(crate) retry: Option<Wait>,
}

/// The wait before another attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// The server named it.
    Asked(Duration),
    Backoff,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason, retry: None }
    }
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        let retry = matches!(error.status(), Some(429 | 502..=504));
        Self {
            reason: error.to_string(),
            retry: retry.then(|| error.retry_after().map_or(Wait::Backoff, Wait::Asked)),
        }
    }
}

/// Attempts until one succeeds, a failure is final or the next one would begin after `limit` or the `end` of the run.
/// Each gets the rest of the time. `failed` hears the reason of each that is followed by another.
pub(crate) async fn attempt<F, Fut>(
    limit: Duration,
    mut end: watch::Receiver<Option<Instant>>,
    failed: impl Fn(&str),
    mut send: F,
) -> Result<(), String>
where
    F: FnMut(Duration) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let start = Instant::now();
    let mut backoff = FIRST_WAIT;
    loop {
        let Err(failure) = send(limit.saturating_sub(start.elapsed())).await else {
            return Ok(());
        };
        let (wait, is_asked) = match failure.retry {
            Some(Wait::Asked(wait)) => (wait, true),
            Some(Wait::Backoff) => (backoff, false),
            None => return Err(failure.reason),
        };
        let next = Instant::now() + wait;
        let too_late = |end: Option<Instant>| next >= start + limit || end.is_some_and(|end| next >= end);
        if too_late(*end.borrow_and_update()) {
            return Err(failure.reason);
        }
        failed(&failure.reason);
        let ends = async {
            // Without a sender, there is no end to wait for.
            if end.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = sleep_until(next) => {}
            () = ends => {
                let last = *end.borrow();
                if is_asked {
                    if too_late(last) {
                        return Err(failure.reason);
                    }
                    sleep_until(next).await;
                }
            }
        }
        backoff = (backoff * 2).min(MAX_WAIT);
    }
}
