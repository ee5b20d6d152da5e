//! One request at a time of each AG-UI thread, while it chooses its conversation and begins its run. Knows no conversations.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// A user and a thread.
type Key = (String, String);

/// The threads in which a request begins a run.
#[derive(Debug, Default)]
pub(crate) struct Threads(Mutex<HashMap<Key, Weak<AsyncMutex<()>>>>);

/// The turn of a request; that of the next one when dropped.
#[derive(Debug)]
pub(crate) struct ThreadLock(#[expect(dead_code, reason = "held until the run began")] OwnedMutexGuard<()>);

impl Threads {
    /// Waits for the requests before this one.
    pub(crate) async fn lock(&self, user: &str, thread: &str) -> ThreadLock {
        let lock = {
            let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            threads.retain(|_, lock| lock.strong_count() > 0);
            let known = threads.entry((user.to_owned(), thread.to_owned())).or_default();
            known.upgrade().unwrap_or_else(|| {
                let lock = Arc::default();
                *known = Arc::downgrade(&lock);
                lock
            })
        };
        ThreadLock(lock.lock_owned().await)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_request_waits_for_those_of_its_own_thread_and_nothing_stays() {
        let threads = Threads::default();
        let first = threads.lock("alice", "t").await;
        let mut second = Box::pin(threads.lock("alice", "t"));
        assert!(second.as_mut().now_or_never().is_none());
        let others = [threads.lock("bob", "t").await, threads.lock("alice", "u").await];
        drop(first);
        drop((second.await, others));
        // A client that leaves while its request waits.
        let held = threads.lock("alice", "v").await;
        assert!(threads.lock("alice", "v").now_or_never().is_none());
        drop(held);
        drop(threads.lock("alice", "w").await);
        assert_eq!(threads.0.lock().unwrap().len(), 1);
    }
}
