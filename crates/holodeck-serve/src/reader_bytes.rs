//! The bytes that wait for readers of events, of all connections together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all frames that connections have not taken yet.
const LIMIT: usize = 32 << 20;

/// The size of a permit.
const UNIT: usize = 1 << 10;

/// Places for frames that wait for their connections.
#[derive(Debug)]
pub(crate) struct ReaderBytes {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for ReaderBytes {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(LIMIT / UNIT)),
            waiting: AtomicUsize::new(0),
        }
    }
}

/// One that waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReaderBytes {
    /// Waits for space for a frame. One that is larger than everything takes everything.
    pub(crate) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        // The semaphore is never closed.
        Arc::clone(&self.places)
            .acquire_many_owned(units(bytes))
            .await
            .ok()
    }

    /// Space for a frame, if there is some.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_many_owned(units(bytes)).ok()
    }

    /// Whether a reader waits for space that others hold.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

fn units(bytes: usize) -> u32 {
    let units = bytes.div_ceil(UNIT).clamp(1, LIMIT / UNIT);
    u32::try_from(units).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn frames_wait_for_space_and_any_size_gets_it() {
        let bytes = ReaderBytes::default();
        let all = bytes.take(usize::MAX).now_or_never().unwrap().unwrap();
        assert!(!bytes.is_short());
        let mut next = Box::pin(bytes.take(1));
        assert!((&mut next).now_or_never().is_none());
        assert!(bytes.is_short());
        drop(next);
        assert!(!bytes.is_short());
        drop(all);
        assert!(bytes.take(0).now_or_never().unwrap().is_some());
    }
}
