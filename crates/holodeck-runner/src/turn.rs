use std::time::{Duration, Instant};

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, EventStream, ExecutionResult, ResultFold};

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
/// turn's time-out is kept, whatever the backend.
pub async fn drive(
    mut stream: EventStream<'_>,
    limit: Option<Duration>,
    mut on_event: impl FnMut(&BackendEvent),
) -> Driven {
    let started = Instant::now();
    let mut fold = ResultFold::new();
    let work = async {
        loop {
            match stream.next().await {
                Some(Ok(BackendEvent::End(result))) => return Ok(*result),
                Some(Ok(event)) => {
                    on_event(&event);
                    fold.observe(&event);
                }
                Some(Err(error)) => return Err(error),
                None => {
                    return Err(BackendError::Protocol {
                        message: "the turn ended without a result".to_owned(),
                    });
                }
            }
        }
    };
    let outcome = match limit {
        Some(limit) => match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(BackendError::Timeout { after: limit }),
        },
        None => work.await,
    };
    let elapsed = started.elapsed();
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
        assert!(matches!(driven.error, Some(BackendError::Timeout { after }) if after.as_secs() == 2));
        assert_eq!(driven.result.response, "0 ");
        assert_eq!(driven.result.error_reason().unwrap(), "timeout exceeded");
    }
}
