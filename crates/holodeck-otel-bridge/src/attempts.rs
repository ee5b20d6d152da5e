//! Sends a request again while its collector is busy: by OTLP's rules, within the time that the end of a run allows.

use std::{future::Future, time::Duration};

use holodeck_http::{HttpError, RetryPolicy};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The reason, without secrets.
    pub(crate) reason: String,
    /// When another attempt may help; `None` if it would not.
    pub(crate) retry: Option<Retry>,
}

/// When another attempt may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// After the wait that the server named.
    After(Duration),
    /// After a backoff.
    Soon,
    /// After a backoff, but not once the run ends: the server may never come, and no run waits for it.
    DuringRun,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason, retry: None }
    }
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        let retry = match &error {
            HttpError::Status {
                status: 429 | 502..=504,
                retry_after,
                ..
            } => Some(retry_after.map_or(Retry::Soon, Retry::After)),
            HttpError::Body { .. } => Some(Retry::Soon),
            HttpError::Connect { .. } if error.retryable() => Some(Retry::DuringRun),
            _ => None,
        };
        Self {
            reason: error.to_string(),
            retry,
        }
    }
}

/// The waits that no server asked for.
fn backoff() -> RetryPolicy {
    RetryPolicy {
        first_wait: Duration::from_millis(100),
        max_wait: Duration::from_secs(5),
        ..RetryPolicy::default()
    }
}

/// Attempts until one succeeds, a failure is final, or the next attempt would begin after `limit` or the `end` of the run.
/// `failed` receives the reason of each failure that is followed by another attempt.
pub(crate) async fn attempt<F, Fut>(
    limit: Duration,
    mut end: watch::Receiver<Option<Instant>>,
    failed: impl Fn(&str),
    mut send: F,
) -> Result<(), String>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let deadline = Instant::now() + limit;
    let mut last: Option<String> = None;
    for retries in 0_u32.. {
        // The first attempt has the whole time, and says itself that it was too short.
        let sent = match &last {
            None => send().await,
            Some(reason) => match timeout_at(deadline, send()).await {
                Ok(sent) => sent,
                Err(_elapsed) => return Err(reason.clone()),
            },
        };
        let Err(Failure { reason, retry }) = sent else {
            return Ok(());
        };
        let known_end = *end.borrow_and_update();
        let wait = match retry {
            Some(Retry::After(wait)) => Some(wait),
            Some(Retry::DuringRun) if known_end.is_some() => None,
            Some(Retry::Soon | Retry::DuringRun) => Some(backoff().backoff(retries)),
            None => None,
        };
        // A server may name a wait of any length.
        let Some(next) = wait.and_then(|wait| Instant::now().checked_add(wait)) else {
            return Err(reason);
        };
        let is_too_late = |end: Option<Instant>| next >= deadline || end.is_some_and(|end| next >= end);
        if is_too_late(known_end) {
            return Err(reason);
        }
        failed(&reason);
        tokio::select! {
            () = sleep_until(next) => {}
            found = change(&mut end) => {
                // A wait that the server named is kept; the end of the run shortens the others.
                if matches!(retry, Some(Retry::After(_))) {
                    if is_too_late(found) {
                        return Err(reason);
                    }
                    sleep_until(next).await;
                }
            }
        }
        last = Some(reason);
    }
    Err(last.unwrap_or_default())
}

/// The end of the run, when it becomes known. Without a sender, that is never.
async fn change(end: &mut watch::Receiver<Option<Instant>>) -> Option<Instant> {
    if end.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    *end.borrow()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use holodeck_http::{ConnectReason, HttpUrl};
    use pretty_assertions::assert_eq;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// The time at which something happened, from the start of the test.
    type Times = Vec<Duration>;

    /// The outcome, and when each attempt began, against a server that fails in one way; the run ends after a while, for two
    /// seconds.
    async fn attempts(retry: Option<Retry>, end_after: Option<Duration>) -> (Result<(), String>, Times) {
        let start = Instant::now();
        let sender = watch::Sender::new(None);
        let times = std::cell::RefCell::new(Vec::new());
        let reported = Cell::new(0);
        let all = attempt(
            LIMIT,
            sender.subscribe(),
            |_| reported.set(reported.get() + 1),
            || {
                times.borrow_mut().push(start.elapsed());
                let reason = format!("attempt {}", times.borrow().len());
                async move { Err(Failure { reason, retry }) }
            },
        );
        let ends = async {
            if let Some(after) = end_after {
                tokio::time::sleep(after).await;
                sender.send_replace(Some(Instant::now() + Duration::from_secs(2)));
            }
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = all => outcome,
            () = ends => unreachable!(),
        };
        let times = times.into_inner();
        assert!(
            [times.len(), times.len() - 1].contains(&reported.get()),
            "{times:?}"
        );
        (outcome, times)
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_begins_after_the_limit_or_the_end_of_the_run() {
        let second = Duration::from_secs(1);
        for (retry, end_after, last) in [
            (Retry::Soon, None, LIMIT),
            (Retry::DuringRun, None, LIMIT),
            (Retry::Soon, Some(Duration::ZERO), 2 * second),
            (Retry::Soon, Some(10 * second), 12 * second),
            (Retry::After(second), Some(Duration::ZERO), 2 * second),
            (Retry::After(second), Some(10 * second), 12 * second),
        ] {
            let (outcome, times) = attempts(Some(retry), end_after).await;
            assert_eq!(outcome, Err(format!("attempt {}", times.len())));
            assert!(times.len() > 1, "{retry:?} {end_after:?}: {times:?}");
            assert!(
                times.iter().all(|time| *time < last),
                "{retry:?} {end_after:?}: {times:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_the_server_names_is_kept_or_not_begun() {
        let second = Duration::from_secs(1);
        let (_, times) = attempts(Some(Retry::After(second)), Some(Duration::from_millis(1500))).await;
        assert_eq!(times, [0, 1, 2, 3].map(Duration::from_secs));
        for wait in [LIMIT, Duration::MAX] {
            let (_, times) = attempts(Some(Retry::After(wait)), None).await;
            assert_eq!(times, [Duration::ZERO], "longer than the limit");
        }
        let start = Instant::now();
        let (outcome, times) = attempts(Some(Retry::After(25 * second)), Some(second)).await;
        assert_eq!(times, [Duration::ZERO], "longer than the end of the run");
        assert_eq!(outcome, Err("attempt 1".to_owned()));
        assert_eq!(start.elapsed(), second, "known as soon as the run ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_cannot_be_reached_is_asked_once_more_when_the_run_ends() {
        let (_, times) = attempts(Some(Retry::DuringRun), Some(Duration::from_millis(1))).await;
        assert_eq!(times.last(), Some(&Duration::from_millis(1)), "{times:?}");
        let (_, times) = attempts(None, None).await;
        assert_eq!(times.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_attempt_that_hangs_ends_with_the_reason_of_the_last_answer() {
        let count = Cell::new(0);
        let start = Instant::now();
        let outcome = attempt(
            LIMIT,
            watch::Sender::new(None).subscribe(),
            |_| {},
            || {
                count.set(count.get() + 1);
                let hangs = count.get() == 2;
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    let retry = Some(Retry::Soon);
                    Err(Failure {
                        reason: "busy".to_owned(),
                        retry,
                    })
                }
            },
        );
        assert_eq!(outcome.await, Err("busy".to_owned()));
        assert_eq!((count.get(), start.elapsed()), (2, LIMIT));
    }

    #[test]
    fn the_statuses_and_faults_that_are_tried_again_are_those_of_otlp() {
        let url = || HttpUrl::parse("http://h").unwrap();
        let after = Some(Duration::from_secs(7));
        for status in 300..600 {
            for (retry_after, expected) in
                [(None, Retry::Soon), (after, Retry::After(Duration::from_secs(7)))]
            {
                let error = HttpError::Status {
                    url: url(),
                    status,
                    body: String::new(),
                    retry_after,
                };
                let expected = [429, 502, 503, 504].contains(&status).then_some(expected);
                assert_eq!(Failure::from(error).retry, expected, "{status}");
            }
        }
        let connect = |reason| HttpError::Connect { url: url(), reason };
        let reason = || "x".to_owned();
        for (error, expected) in [
            (connect(ConnectReason::Refused), Some(Retry::DuringRun)),
            (connect(ConnectReason::Dns(reason())), Some(Retry::DuringRun)),
            (connect(ConnectReason::Certificate(reason())), None),
            (connect(ConnectReason::Tls(reason())), None),
            (
                HttpError::Body {
                    url: url(),
                    reason: reason(),
                },
                Some(Retry::Soon),
            ),
            (
                HttpError::Timeout {
                    url: url(),
                    after: LIMIT,
                },
                None,
            ),
        ] {
            assert_eq!(Failure::from(error.clone()).retry, expected, "{error}");
        }
    }
}
