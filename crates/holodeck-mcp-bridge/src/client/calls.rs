//! Keeps track of the running calls of one server, to attribute its questions to them.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use holodeck_backend_api::{ElicitationHost, ToolCx};
use tokio_util::sync::CancellationToken;

/// The running calls of one server.
///
/// The protocol does not say during which call a server asks the person, so a question counts only while one call runs.
#[derive(Default)]
pub(crate) struct RunningCalls {
    next: AtomicU64,
    calls: Mutex<Vec<RunningCall>>,
}

/// A running call.
#[derive(Clone)]
pub(crate) struct RunningCall {
    number: u64,
    pub(crate) person: Option<Arc<dyn ElicitationHost>>,
    /// Fires when the call is over.
    pub(crate) over: CancellationToken,
}

/// Ends the call when it is dropped.
pub(crate) struct CallGuard<'a> {
    calls: &'a RunningCalls,
    call: RunningCall,
}

impl RunningCalls {
    pub(crate) fn begin(&self, cx: &ToolCx) -> CallGuard<'_> {
        let call = RunningCall {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            person: cx.elicitation.clone(),
            over: CancellationToken::new(),
        };
        self.lock().push(call.clone());
        CallGuard { calls: self, call }
    }

    /// The call, if just one runs.
    pub(crate) fn only(&self) -> Option<RunningCall> {
        match self.lock().as_slice() {
            [call] => Some(call.clone()),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RunningCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.calls.lock().retain(|call| call.number != self.call.number);
        self.call.over.cancel();
    }
}
