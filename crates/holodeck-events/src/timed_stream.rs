//! Enforces the time limit of a turn, whatever the backend; the clock stops while the turn is paused.

use std::time::Duration;

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, EventStream};
use tokio::time::Instant;

/// A turn's stream with its clock. The one place where a turn's time-out is enforced, whatever the backend. While the
/// turn is paused, the clock stops.
pub struct TimedStream<'a> {
    stream: EventStream<'a>,
    limit: Option<Duration>,
    stopwatch: Stopwatch,
    /// The cause of the last failed attempt, until another attempt succeeds.
    failed_attempt: Option<String>,
}

impl<'a> TimedStream<'a> {
    /// Starts the clock of `stream`, which may take no longer than `limit`.
    pub fn new(stream: EventStream<'a>, limit: Option<Duration>) -> Self {
        Self {
            stream,
            limit,
            stopwatch: Stopwatch::start(),
            failed_attempt: None,
        }
    }

    /// The next event. A stream that ends without a result, or takes too long, ends with an error.
    pub async fn next(&mut self) -> Result<BackendEvent, BackendError> {
        let next = match self.limit.and_then(|limit| self.stopwatch.deadline(limit)) {
            Some(deadline) => tokio::time::timeout_at(deadline, self.stream.next()).await,
            None => Ok(self.stream.next().await),
        };
        let Ok(next) = next else {
            return Err(BackendError::Timeout {
                after: self.limit.unwrap_or_default(),
                cause: self.failed_attempt.take(),
            });
        };
        let event = next.unwrap_or_else(|| Err(BackendError::no_result()))?;
        match &event {
            BackendEvent::Paused => self.stopwatch.pause(),
            BackendEvent::Resumed => self.stopwatch.resume(),
            BackendEvent::LimitLifted => self.limit = None,
            BackendEvent::Retrying { cause, .. } => self.failed_attempt = Some(cause.clone()),
            BackendEvent::Notice { .. } => {}
            // The attempt after it succeeded.
            _ => self.failed_attempt = None,
        }
        Ok(event)
    }

    /// How long the turn took so far, without pauses.
    pub fn elapsed(&self) -> Duration {
        self.stopwatch.elapsed()
    }
}

struct Stopwatch {
    before: Duration,
    running_since: Option<Instant>,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            before: Duration::ZERO,
            running_since: Some(Instant::now()),
        }
    }

    fn pause(&mut self) {
        self.before = self.elapsed();
        self.running_since = None;
    }

    fn resume(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }

    fn elapsed(&self) -> Duration {
        self.before + self.running_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// When `limit` is reached without another pause.
    fn deadline(&self, limit: Duration) -> Option<Instant> {
        let left = limit.saturating_sub(self.before);
        self.running_since.and_then(|since| since.checked_add(left))
    }
}
