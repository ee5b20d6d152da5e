use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures_core::Stream;
use tokio_util::sync::CancellationToken;

use crate::{BackendError, BackendEvent, EventStream, ExecutionResult, TurnRequest, fold::collect};

/// Text of an answer as it is written.
pub type TextStream<'a> = Pin<Box<dyn Stream<Item = Result<String, BackendError>> + Send + 'a>>;

/// A conversation. One turn at a time: `&mut self` makes a second one a compile error.
#[async_trait]
pub trait AgentSession: Send {
    /// Runs the next turn. Everything else is built on this.
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_>;

    /// Where the conversation stands.
    fn state(&self) -> SessionState;

    /// A handle that can interrupt a running turn from elsewhere.
    fn control(&self) -> SessionControl;

    /// Ends the conversation and releases what it holds.
    async fn close(&mut self) -> Result<(), BackendError>;

    /// Runs the next turn and waits for its result.
    async fn send(&mut self, message: &str) -> Result<ExecutionResult, BackendError> {
        collect(self.turn(TurnRequest::new(message)))
            .await
            .map_err(|failed| failed.error)
    }

    /// Runs the next turn and yields only the text of its answer.
    fn send_streaming(&mut self, message: &str) -> TextStream<'_> {
        Box::pin(TextOnly(self.turn(TurnRequest::new(message))))
    }
}

/// The states of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Made, nothing started.
    Created,
    /// Waiting for a message.
    Ready,
    /// A turn runs.
    Processing,
    /// Over; every further turn is an error.
    Closed,
}

/// Interrupts the running turn of a session. Cheap to clone, outlives the session.
#[derive(Clone)]
pub struct SessionControl(Arc<dyn Fn() + Send + Sync>);

impl SessionControl {
    /// A control that runs `interrupt`.
    pub fn new(interrupt: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(interrupt))
    }

    /// A control that cancels whatever token `current` gives at that moment.
    pub fn cancelling(current: impl Fn() -> CancellationToken + Send + Sync + 'static) -> Self {
        Self::new(move || current().cancel())
    }

    /// Stops the turn that runs now; without one, does nothing.
    pub fn interrupt(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for SessionControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionControl")
    }
}

/// The turn that runs in a session, if one does: for [`AgentSession::state`] and [`AgentSession::control`].
#[derive(Clone, Debug, Default)]
pub struct RunningTurn(Arc<Mutex<Option<CancellationToken>>>);

impl RunningTurn {
    /// A turn begins that `cancel` stops. It runs until the guard is dropped.
    pub fn begin(&self, cancel: CancellationToken) -> TurnGuard {
        *self.lock() = Some(cancel);
        TurnGuard(self.clone())
    }

    /// Whether a turn runs.
    pub fn is_running(&self) -> bool {
        self.lock().is_some()
    }

    /// A handle that stops the turn that runs when it is used.
    pub fn control(&self) -> SessionControl {
        let running = self.clone();
        SessionControl::new(move || {
            if let Some(turn) = &*running.lock() {
                turn.cancel();
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a [`RunningTurn`] when its stream is dropped.
#[derive(Debug)]
pub struct TurnGuard(RunningTurn);

impl Drop for TurnGuard {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

struct TextOnly<'a>(EventStream<'a>);

impl Stream for TextOnly<'_> {
    type Item = Result<String, BackendError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::task::ready!(self.0.as_mut().poll_next(cx)) {
                Some(Ok(BackendEvent::Text { text })) => return Poll::Ready(Some(Ok(text))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}
