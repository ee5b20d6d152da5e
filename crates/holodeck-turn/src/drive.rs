use std::time::Duration;

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, EventStream, ExecutionResult, ResultFold};
use tokio::time::Instant;

/// A turn that was driven to its end, good or bad.
#[derive(Debug)]
pub struct Driven {
    /// What came of it; on an error, what had arrived.
    pub result: ExecutionResult,
    /// Why it could not be ended.
    pub error: Option<BackendError>,
    /// Wall time.
    pub elapsed: Duration,
}

/// Runs a turn's stream to its end, no longer than `limit`, and shows every event on the way. The one place where a
/// turn's time-out is kept, whatever the backend. Waits for a rate limit of our own count neither against the limit
/// nor as time the turn took.
pub async fn drive(
    mut stream: EventStream<'_>,
    limit: Option<Duration>,
    mut on_event: impl FnMut(&BackendEvent),
) -> Driven {
    let mut clock = Clock::start();
    let mut fold = ResultFold::new();
    let mut failed_attempt = None;
    let outcome = loop {
        let next = match limit.and_then(|limit| clock.deadline(limit)) {
            Some(deadline) => tokio::time::timeout_at(deadline, stream.next()).await,
            None => Ok(stream.next().await),
        };
        match next {
            Ok(Some(Ok(BackendEvent::End(result)))) => break Ok(*result),
            Ok(Some(Ok(event))) => {
                match event {
                    BackendEvent::Paused => clock.stop(),
                    BackendEvent::Resumed => clock.go_on(),
                    BackendEvent::Retrying { ref cause, .. } => failed_attempt = Some(cause.clone()),
                    BackendEvent::Notice { .. } => {}
                    // The attempt after it succeeded.
                    _ => failed_attempt = None,
                }
                on_event(&event);
                fold.observe(&event);
            }
            Ok(Some(Err(error))) => break Err(error),
            Ok(None) => {
                break Err(BackendError::Protocol {
                    message: "the turn ended without a result".to_owned(),
                });
            }
            Err(_elapsed) => {
                break Err(BackendError::Timeout {
                    after: limit.unwrap_or_default(),
                    cause: failed_attempt,
                });
            }
        }
    };
    let elapsed = clock.elapsed();
    match outcome {
        Ok(result) => Driven {
            result,
            error: None,
            elapsed,
        },
        Err(error) => Driven {
            result: fold.finish_failed(&error),
            error: Some(error),
            elapsed,
        },
    }
}

/// A stopwatch.
struct Clock {
    before: Duration,
    running_since: Option<Instant>,
}

impl Clock {
    fn start() -> Self {
        Self {
            before: Duration::ZERO,
            running_since: Some(Instant::now()),
        }
    }

    fn stop(&mut self) {
        self.before = self.elapsed();
        self.running_since = None;
    }

    fn go_on(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }

    fn elapsed(&self) -> Duration {
        self.before + self.running_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// When `limit` is reached if the clock is not stopped before.
    fn deadline(&self, limit: Duration) -> Option<Instant> {
        let left = limit.saturating_sub(self.before);
        self.running_since.and_then(|since| since.checked_add(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_turn_ends_at_its_limit_and_keeps_its_text() {
        let stream: EventStream<'_> = Box::pin(futures::stream::unfold(0, |said| async move {
            tokio::time::sleep(Duration::from_secs(said * 6)).await;
            Some((
                Ok(BackendEvent::Text {
                    text: format!("{said} "),
                }),
                said + 1,
            ))
        }));
        let driven = drive(stream, Some(Duration::from_secs(2)), |_| {}).await;
        assert!(matches!(driven.error, Some(BackendError::Timeout { after, .. }) if after.as_secs() == 2));
        assert_eq!(driven.result.response, "0 ");
        assert_eq!(driven.result.error_reason().unwrap(), "timeout exceeded");
    }

    #[tokio::test(start_paused = true)]
    async fn c03_a_timeout_between_attempts_keeps_what_the_last_one_ended_with() {
        let stream = |answer: bool| -> EventStream<'static> {
            Box::pin(async_stream::stream! {
                yield Ok(BackendEvent::Retrying { cause: "HTTP 429\nhint".to_owned(), wait: Duration::from_secs(9) });
                yield Ok(BackendEvent::Notice { message: "asking again".to_owned() });
                if answer {
                    yield Ok(BackendEvent::Text { text: "an ans".to_owned() });
                }
                std::future::pending::<()>().await;
            })
        };
        let driven = drive(stream(false), Some(Duration::from_secs(2)), |_| {}).await;
        assert_eq!(
            driven.error.unwrap().to_string(),
            "timeout exceeded; the last attempt failed: HTTP 429"
        );
        assert_eq!(driven.result.error_reason().unwrap(), "timeout exceeded");
        let driven = drive(stream(true), Some(Duration::from_secs(2)), |_| {}).await;
        assert_eq!(driven.error.unwrap().to_string(), "timeout exceeded");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_stands_still_while_the_turn_is_held_back() {
        let sleep = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        let stream: EventStream<'_> = Box::pin(async_stream::stream! {
            sleep(1).await;
            yield Ok(BackendEvent::Paused);
            sleep(600).await;
            yield Ok(BackendEvent::Resumed);
            sleep(3).await;
            yield Ok(BackendEvent::End(Box::default()));
        });
        let driven = drive(stream, Some(Duration::from_secs(5)), |_| {}).await;
        assert!(driven.error.is_none());
        assert_eq!(driven.elapsed, Duration::from_secs(4));
    }
}
