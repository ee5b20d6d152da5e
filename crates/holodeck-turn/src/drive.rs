//! Runs the stream of a turn to its end within a time limit, and records it without a store.

use std::time::Duration;

use holodeck_backend_api::{BackendError, BackendEvent, EventStream, ExecutionResult};
use holodeck_events::{RunRecorder, TimedStream, Trajectory};

/// A turn that has ended, successfully or not.
#[derive(Debug)]
pub struct FinishedTurn {
    /// The result; after an error, the content received so far.
    pub result: ExecutionResult,
    /// Events that are not part of the result.
    pub trajectory: Trajectory,
    /// Why the turn could not be completed.
    pub error: Option<BackendError>,
    /// Wall time without pauses.
    pub elapsed: Duration,
}

/// Runs a turn's stream to its end, for at most `limit`, passes every event to `on_event`, and records it without a
/// store. Waiting for this program's rate limit counts neither towards the limit nor as time of the turn.
pub async fn drive(
    stream: EventStream<'_>,
    limit: Option<Duration>,
    mut on_event: impl FnMut(&BackendEvent),
) -> FinishedTurn {
    let mut stream = TimedStream::new(stream, limit);
    let mut recorder = RunRecorder::without_store();
    let error = loop {
        match stream.next().await {
            Ok(BackendEvent::End(result)) => {
                recorder.complete(*result);
                break None;
            }
            Ok(event) => {
                on_event(&event);
                recorder.observe(&event);
            }
            Err(error) => {
                recorder.fail(&error);
                break Some(error);
            }
        }
    };
    let (result, trajectory) = recorder.into_result();
    FinishedTurn {
        result,
        trajectory,
        error,
        elapsed: stream.elapsed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_turn_ends_at_its_limit_and_keeps_its_text() {
        let stream: EventStream<'_> = Box::pin(futures::stream::unfold(0, |count| async move {
            tokio::time::sleep(Duration::from_secs(count * 6)).await;
            Some((
                Ok(BackendEvent::Text {
                    text: format!("{count} "),
                }),
                count + 1,
            ))
        }));
        let turn = drive(stream, Some(Duration::from_secs(2)), |_| {}).await;
        assert!(matches!(turn.error, Some(BackendError::Timeout { after, .. }) if after.as_secs() == 2));
        assert_eq!(turn.result.response, "0 ");
        assert_eq!(turn.result.error_reason().unwrap(), "timeout exceeded");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_between_attempts_reports_the_error_of_the_last_one() {
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
        let turn = drive(stream(false), Some(Duration::from_secs(2)), |_| {}).await;
        assert_eq!(
            turn.error.unwrap().to_string(),
            "timeout exceeded; the last attempt failed: HTTP 429"
        );
        assert_eq!(turn.result.error_reason().unwrap(), "timeout exceeded");
        let turn = drive(stream(true), Some(Duration::from_secs(2)), |_| {}).await;
        assert_eq!(turn.error.unwrap().to_string(), "timeout exceeded");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_do_not_count_towards_the_time_limit() {
        let sleep = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        let stream: EventStream<'_> = Box::pin(async_stream::stream! {
            sleep(1).await;
            yield Ok(BackendEvent::Paused);
            sleep(600).await;
            yield Ok(BackendEvent::Resumed);
            sleep(3).await;
            yield Ok(BackendEvent::End(Box::default()));
        });
        let turn = drive(stream, Some(Duration::from_secs(5)), |_| {}).await;
        assert!(turn.error.is_none());
        assert_eq!(turn.elapsed, Duration::from_secs(4));
    }
}
