//! Readers of conversations: each follows one at a process, and goes to the next process when the connection ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::fleet::Addresses;
use crate::served::client::{Event, Events};

/// A thread that follows a conversation until it is to end.
pub(super) struct Reader {
    received: Arc<Mutex<Vec<Event>>>,
    is_over: Arc<AtomicBool>,
    process: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Follows a conversation, first at this process.
    pub(super) fn start(addresses: &Addresses, session: &str, first: usize) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let at = Arc::new(AtomicUsize::new(first));
        let thread = thread::spawn({
            let at = Arc::clone(&at);
            let (received, is_over) = (Arc::clone(&received), Arc::clone(&is_over));
            let (addresses, session) = (addresses.clone(), session.to_owned());
            move || {
                for process in first.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    at.store(process, Ordering::Relaxed);
                    follow(&addresses.get(process), &session, &received);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        });
        Self {
            received,
            is_over,
            process: at,
            thread: Some(thread),
        }
    }

    /// Everything received so far, over all connections.
    pub(super) fn received(&self) -> MutexGuard<'_, Vec<Event>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the process at which it reads.
    pub(super) fn process(&self, processes: usize) -> usize {
        self.process.load(Ordering::Relaxed) % processes.max(1)
    }

    /// From now on the end of a connection ends it.
    pub(super) fn finish(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.finish();
        // Its connection ends with the process; nothing depends on when.
        drop(self.thread.take());
    }
}

fn follow(address: &str, session: &str, received: &Mutex<Vec<Event>>) {
    let lock = || received.lock().unwrap_or_else(PoisonError::into_inner);
    let last = lock().last().map(|event| event.index);
    let Ok(mut events) = Events::follow(address, session, last) else {
        return;
    };
    while let Ok(Some(event)) = events.next() {
        lock().push(event);
    }
}
