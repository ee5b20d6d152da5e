//! Limits of one call, and the one retry policy.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use tokio::time::Instant;

use crate::{HttpError, Pacer};

/// When to retry a failed request: exponential backoff with full jitter, or the wait that the server requested.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// Further attempts after the first.
    pub max_retries: u32,
    /// Upper end of the first wait; it doubles with each retry.
    pub first_wait: Duration,
    /// Upper limit of the computed waits.
    pub max_wait: Duration,
    /// If a server requests a longer wait, there is no retry.
    pub max_retry_after: Duration,
    /// Errors that look transient but are not, as determined by the caller.
    pub never: fn(&HttpError) -> bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            first_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(20),
            max_retry_after: Duration::from_mins(1),
            never: |_error| false,
        }
    }
}

impl RetryPolicy {
    /// One attempt only.
    pub fn none() -> Self {
        Self {
            max_retries: 0,
            ..Self::default()
        }
    }

    /// How long to wait before a retry after `error` and `retries` earlier retries, or `None` to give up. `jitter` is a
    /// random number from 0 to 1.
    pub fn wait(&self, retries: u32, error: &HttpError, jitter: f64) -> Option<Duration> {
        if retries >= self.max_retries || !error.retryable() || (self.never)(error) {
            return None;
        }
        let jitter = jitter.clamp(0.0, 1.0);
        if let Some(asked) = error.retry_after() {
            // The jitter is added: an earlier retry is useless, simultaneous ones overload the server.
            return (asked <= self.max_retry_after).then(|| asked + self.first_wait.mul_f64(jitter));
        }
        Some(self.ceiling(retries).mul_f64(jitter))
    }

    /// As [`wait`](Self::wait), with a random jitter: for a caller that sends one attempt at a time.
    pub fn next_wait(&self, retries: u32, error: &HttpError) -> Option<Duration> {
        self.wait(retries, error, random())
    }

    /// A random wait before a retry after `retries` earlier ones, whatever failed.
    pub fn backoff(&self, retries: u32) -> Duration {
        self.ceiling(retries).mul_f64(random())
    }

    fn ceiling(&self, retries: u32) -> Duration {
        let ceiling = self.first_wait.saturating_mul(2_u32.saturating_pow(retries));
        ceiling.min(self.max_wait)
    }
}

/// Limits of one call.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// Time for the whole call: every attempt, the waits between them and the body. Waiting for the pacer does not
    /// count.
    pub timeout: Option<Duration>,
    /// When to retry.
    pub retry: RetryPolicy,
    /// Spaces requests out; each attempt is one request.
    pub pacer: Option<Pacer>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_mins(1)),
            retry: RetryPolicy::default(),
            pacer: None,
        }
    }
}

/// The result of a call besides its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    pub(crate) paced: Duration,
    pub(crate) deadline: Option<Instant>,
}

/// Runs `attempt` until it succeeds, the policy gives up or the deadline would pass. Each attempt gets the deadline; a
/// retry that would end after it is not started, and the last error is returned instead.
pub(crate) async fn run<T, F, Fut>(options: &CallOptions, mut attempt: F) -> Result<(T, Attempts), HttpError>
where
    F: FnMut(Option<Instant>) -> Fut,
    Fut: Future<Output = Result<T, HttpError>>,
{
    let mut attempts = Attempts {
        count: 0,
        paced: Duration::ZERO,
        deadline: options.timeout.map(|timeout| Instant::now() + timeout),
    };
    loop {
        if let Some(pacer) = &options.pacer {
            let waited = pacer.wait().await;
            attempts.paced += waited;
            attempts.deadline = attempts.deadline.map(|deadline| deadline + waited);
        }
        let error = match attempt(attempts.deadline).await {
            Ok(value) => {
                attempts.count += 1;
                return Ok((value, attempts));
            }
            Err(error) => error,
        };
        let Some(wait) = options.retry.next_wait(attempts.count, &error) else {
            return Err(error);
        };
        if attempts
            .deadline
            .is_some_and(|deadline| Instant::now() + wait >= deadline)
        {
            return Err(error);
        }
        attempts.count += 1;
        tracing::debug!(%error, retry = attempts.count, wait_ms = wait.as_millis(), "retrying the request");
        tokio::time::sleep(wait).await;
    }
}

/// Reads a `Retry-After` value: seconds or an HTTP date.
pub(crate) fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// The wait that the headers of an answer ask for.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // OpenAI and Azure send the more precise header beside the standard one.
    if let Some(milliseconds) = text("retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    // A date is one of the server's clock, which may be wrong.
    let date = text(DATE.as_str()).and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    parse_retry_after(text(RETRY_AFTER.as_str())?, date.unwrap_or_else(Timestamp::now))
}

/// The wait that an error names in its body.
pub(crate) fn retry_after_in(body: &[u8]) -> Option<Duration> {
    retry_delay(&serde_json::from_slice(body).ok()?)
}

/// The wait that an error names, as Google's `RetryInfo` does: `"retryDelay": "2s"`.
pub fn retry_delay(error: &Value) -> Option<Duration> {
    fn find(value: &Value) -> Option<&str> {
        match value {
            Value::Object(fields) => match fields.get("retryDelay") {
                Some(Value::String(delay)) => Some(delay),
                _ => fields.values().find_map(find),
            },
            Value::Array(items) => items.iter().find_map(find),
            _ => None,
        }
    }
    let seconds = find(error)?.trim().strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A random number from 0 to 1; the standard library's hash seeds are random enough to spread retries.
fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::HttpUrl;

    fn status(status: u16, retry_after: Option<u64>) -> HttpError {
        HttpError::Status {
            url: HttpUrl::parse("http://h").unwrap(),
            status,
            body: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn waits_double_up_to_the_ceiling_and_end() {
        let policy = RetryPolicy {
            max_retries: 6,
            ..RetryPolicy::default()
        };
        let waits: Vec<_> = (0..8)
            .map(|n| policy.wait(n, &status(500, None), 1.0).map(|d| d.as_secs()))
            .collect();
        assert_eq!(
            waits,
            [Some(1), Some(2), Some(4), Some(8), Some(16), Some(20), None, None]
        );
        assert_eq!(policy.wait(3, &status(500, None), 0.0), Some(Duration::ZERO));
        assert_eq!(
            policy.wait(3, &status(500, None), 0.25),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn what_the_server_asked_for_is_honoured_up_to_a_limit() {
        let policy = RetryPolicy::default();
        assert_eq!(
            policy.wait(0, &status(429, Some(7)), 0.0),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            policy.wait(0, &status(429, Some(7)), 1.0),
            Some(Duration::from_secs(8))
        );
        assert_eq!(policy.wait(0, &status(429, Some(61)), 0.0), None);
    }

    #[test]
    fn final_answers_are_not_retried() {
        let policy = RetryPolicy::default();
        for code in [301, 400, 401, 403, 404, 405, 413, 422, 501, 505] {
            assert_eq!(policy.wait(0, &status(code, Some(1)), 0.5), None, "{code}");
        }
        for code in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert!(policy.wait(0, &status(code, None), 0.5).is_some(), "{code}");
        }
        let picky = RetryPolicy {
            never: |error| error.status() == Some(429),
            ..RetryPolicy::default()
        };
        assert_eq!(picky.wait(0, &status(429, None), 0.5), None);
        assert_eq!(RetryPolicy::none().wait(0, &status(500, None), 0.5), None);
    }

    #[test]
    fn retry_after_in_both_forms() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        for (text, expected) in [
            ("120", Some(120.0)),
            (" 0.5 ", Some(0.5)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37.0)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", Some(0.0)),
            ("-1", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(
                parse_retry_after(text, now).map(|d| d.as_secs_f64()),
                expected,
                "{text}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_that_ends_after_the_deadline_is_not_begun() {
        let calls = Cell::new(0);
        let options = CallOptions {
            timeout: Some(Duration::from_secs(10)),
            ..CallOptions::default()
        };
        let result = run(&options, |_deadline| {
            calls.set(calls.get() + 1);
            std::future::ready(Err::<(), _>(status(429, Some(6))))
        });
        assert_eq!(result.await.unwrap_err().status(), Some(429));
        assert_eq!(calls.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_and_success_ends_them() {
        let calls = Cell::new(0);
        let (value, attempts) = run(&CallOptions::default(), |_deadline| {
            calls.set(calls.get() + 1);
            std::future::ready(if calls.get() < 3 {
                Err(status(503, None))
            } else {
                Ok("done")
            })
        })
        .await
        .unwrap();
        assert_eq!((value, attempts.count), ("done", 3));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_pacer_moves_the_deadline() {
        let pacer = crate::Pacer::per_minute(std::num::NonZeroU32::MIN);
        pacer.wait().await;
        let options = CallOptions {
            timeout: Some(Duration::from_secs(1)),
            pacer: Some(pacer),
            ..CallOptions::default()
        };
        let start = Instant::now();
        let (deadline, attempts) = run(&options, |deadline| std::future::ready(Ok(deadline)))
            .await
            .unwrap();
        assert_eq!(deadline, Some(start + Duration::from_secs(61)));
        assert_eq!(attempts.paced, Duration::from_mins(1));
    }
}
