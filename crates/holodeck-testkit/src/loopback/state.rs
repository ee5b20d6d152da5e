//! The requests, replies and violations of a scripted server, shared with the test.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::{
    delivery::Rendered,
    received::{Received, ReceivedRequest},
};

/// A server's answers and its checks of requests.
pub(crate) trait Dialect: Send + Sync {
    /// The reply that does not depend on the request.
    fn canned(&self) -> Option<Arc<Rendered>> {
        None
    }

    /// Checks and logs `request` and finds its reply.
    fn answer(&self, request: ReceivedRequest, log: &Log) -> Arc<Rendered>;

    /// Removes the unused replies and returns their number.
    fn drain_unused(&self) -> usize;
}

/// State shared by the server's thread and its owner.
pub(crate) struct State {
    dialect: Box<dyn Dialect>,
    log: Log,
    open: watch::Sender<usize>,
}

impl State {
    pub(super) fn new(dialect: Box<dyn Dialect>) -> Self {
        Self {
            dialect,
            log: Log::default(),
            open: watch::Sender::new(0),
        }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The final state; unused replies are one more violation.
    pub(crate) fn take(&self) -> Received {
        let mut received = std::mem::take(&mut *self.log.lock());
        let unused = self.dialect.drain_unused();
        if unused > 0 {
            received
                .violations
                .push(format!("{unused} scripted replies were never asked for"));
        }
        received
    }

    pub(super) fn canned(&self) -> Option<Arc<Rendered>> {
        self.dialect.canned()
    }

    pub(super) fn answer(&self, request: ReceivedRequest) -> Arc<Rendered> {
        self.dialect.answer(request, &self.log)
    }

    pub(crate) fn open(&self) -> usize {
        *self.open.borrow()
    }

    pub(crate) async fn until_open(&self, count: usize) {
        let mut open = self.open.subscribe();
        // The sender lives as long as `self`.
        let _ = open.wait_for(|open| *open == count).await;
    }
}

/// The requests and violations so far.
#[derive(Default)]
pub(crate) struct Log {
    received: Mutex<Received>,
    others: Mutex<Vec<ReceivedRequest>>,
    count: watch::Sender<usize>,
}

impl Log {
    pub(crate) fn received(&self) -> Received {
        self.lock().clone()
    }

    /// Adds a request; returns the number of earlier ones.
    pub(crate) fn keep(&self, mut request: ReceivedRequest, violations: &[String]) -> usize {
        let mut received = self.lock();
        let index = received.requests.len();
        request.index = index;
        let named = violations
            .iter()
            .map(|text| format!("request {}: {text}", index + 1));
        received.violations.extend(named);
        received.requests.push(request);
        drop(received);
        self.count.send_modify(|count| *count += 1);
        index
    }

    /// Adds a request of another kind than the server's own.
    pub(crate) fn keep_other(&self, request: ReceivedRequest) {
        self.lock_others().push(request);
    }

    pub(crate) fn others(&self) -> Vec<ReceivedRequest> {
        self.lock_others().clone()
    }

    pub(crate) fn add_violation(&self, text: String) {
        self.lock().violations.push(text);
    }

    pub(crate) async fn until_kept(&self, count: usize) {
        let mut kept = self.count.subscribe();
        // The sender lives as long as `self`.
        let _ = kept.wait_for(|kept| *kept >= count).await;
    }

    fn lock_others(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a request as open until it is dropped.
pub(super) struct OpenRequest(Arc<State>);

impl OpenRequest {
    pub(super) fn new(state: &Arc<State>) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}
