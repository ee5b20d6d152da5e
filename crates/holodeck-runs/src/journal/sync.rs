//! Writes the journal through to the disk in the background, so that no case waits for it.

use std::{
    fs::File,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use super::JournalError;

/// A power failure loses at most this much; a killed process loses nothing.
const SYNC_EVERY: Duration = Duration::from_millis(200);

/// Syncs a file from a separate thread, several lines at a time, so that no case waits for the disk.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<(Mutex<SyncState>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SyncState {
    dirty: bool,
    stop: bool,
    failed: Option<std::io::Error>,
}

impl Syncer {
    pub(super) fn start(file: Arc<File>) -> Self {
        let shared = Arc::new((Mutex::new(SyncState::default()), Condvar::new()));
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || Self::work(&file, &shared))
        };
        Self {
            shared,
            thread: Some(thread),
        }
    }

    fn work(file: &File, (state, changed): &(Mutex<SyncState>, Condvar)) {
        let mut guard = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            guard = changed
                .wait_while(guard, |state| !state.dirty && !state.stop)
                .unwrap_or_else(PoisonError::into_inner);
            // Collect further lines before syncing, but end immediately on a stop.
            guard = changed
                .wait_timeout_while(guard, SYNC_EVERY, |state| !state.stop)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if std::mem::take(&mut guard.dirty) {
                drop(guard);
                let outcome = file.sync_data();
                guard = state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = outcome {
                    guard.failed = Some(error);
                }
            }
            if guard.stop {
                return;
            }
        }
    }

    pub(super) fn notify(&self) -> Result<(), JournalError> {
        let (state, changed) = &*self.shared;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failed.take() {
            return Err(JournalError::Io {
                path: "sync".to_owned(),
                source: error,
            });
        }
        if !state.dirty {
            state.dirty = true;
            changed.notify_one();
        }
        Ok(())
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        let (state, changed) = &*self.shared;
        state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the final sync reports any error of the file.
            let _ = thread.join();
        }
    }
}
