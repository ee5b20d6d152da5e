//! Spaces requests evenly to stay within a number per minute.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Spaces requests evenly: at most a number per minute, first come first served. Clones share the pace.
#[derive(Clone, Debug)]
pub struct Pacer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    interval: Duration,
    /// One fair permit: only its holder waits for the clock, so a cancelled waiter does not delay others.
    turn: Semaphore,
    next: Mutex<Option<Instant>>,
}

impl Pacer {
    /// At most `requests` each minute.
    pub fn per_minute(requests: NonZeroU32) -> Self {
        Self(Arc::new(Inner {
            interval: Duration::from_mins(1) / requests.get(),
            turn: Semaphore::new(1),
            next: Mutex::new(None),
        }))
    }

    /// Waits for this request's turn and returns the duration of the wait.
    pub async fn wait(&self) -> Duration {
        let asked = Instant::now();
        // The semaphore is never closed; if it were, continuing is right.
        let _turn = self.0.turn.acquire().await.ok();
        let next = *self.0.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = next {
            tokio::time::sleep_until(next).await;
        }
        let now = Instant::now();
        *self.0.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(now + self.0.interval);
        now - asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(requests: u32) -> Pacer {
        Pacer::per_minute(NonZeroU32::new(requests).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_evenly_spaced_and_in_order() {
        let pacer = pacer(30);
        let start = Instant::now();
        let waits = futures::future::join_all((0..4).map(|_| async {
            pacer.wait().await;
            (Instant::now() - start).as_secs()
        }));
        assert_eq!(waits.await, [0, 2, 4, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_is_not_saved_up() {
        let pacer = pacer(60);
        pacer.wait().await;
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(pacer.wait().await, Duration::ZERO);
        assert_eq!(pacer.wait().await.as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_gives_up_takes_no_turn() {
        let pacer = pacer(60);
        pacer.wait().await;
        assert!(
            tokio::time::timeout(Duration::from_millis(100), pacer.wait())
                .await
                .is_err()
        );
        assert_eq!(pacer.wait().await, Duration::from_millis(900));
    }
}
