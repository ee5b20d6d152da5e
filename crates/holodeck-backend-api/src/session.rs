use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
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

    /// A handle to observe the conversation and to interrupt its running turn from elsewhere.
    fn control(&self) -> SessionControl;

    /// Ends the conversation and releases what it holds.
    async fn close(&mut self) -> Result<(), BackendError>;

    /// The state of the conversation.
    fn state(&self) -> SessionState {
        self.control().state()
    }

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
    /// Waiting for a message.
    Ready,
    /// A turn runs, and no text of its answer has arrived yet.
    Processing,
    /// A turn runs, and its answer is arriving.
    Streaming,
    /// Over; every further turn is an error.
    Closed,
}

/// Observes a session and interrupts its running turn, from anywhere. Cheap to clone, outlives the session.
#[derive(Clone, Debug, Default)]
pub struct SessionControl(Arc<Mutex<Stage>>);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Ready,
    Running {
        cancel: CancellationToken,
        streaming: bool,
    },
    Closed,
}

impl SessionControl {
    /// Stops the turn that runs now; without one, does nothing.
    pub fn interrupt(&self) {
        if let Stage::Running { cancel, .. } = &*self.stage() {
            cancel.cancel();
        }
    }

    /// The state of the session.
    pub fn state(&self) -> SessionState {
        match &*self.stage() {
            Stage::Ready => SessionState::Ready,
            Stage::Running { streaming: false, .. } => SessionState::Processing,
            Stage::Running { streaming: true, .. } => SessionState::Streaming,
            Stage::Closed => SessionState::Closed,
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every session keeps about itself: whether it is open, and the turn that runs.
#[derive(Debug, Default)]
pub struct SessionCore(SessionControl);

impl SessionCore {
    /// An open session.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a turn whose events come from `events`, which receives the request with a token of its own: interrupting
    /// this turn must not stop what else the caller's token stops. A closed session gives an error instead.
    pub fn turn<'a>(
        &self,
        mut request: TurnRequest,
        events: impl FnOnce(TurnRequest) -> EventStream<'a>,
    ) -> EventStream<'a> {
        request.cancel = request.cancel.child_token();
        {
            let mut stage = self.0.stage();
            if matches!(*stage, Stage::Closed) {
                return Box::pin(Closed(false));
            }
            *stage = Stage::Running {
                cancel: request.cancel.clone(),
                streaming: false,
            };
        }
        let running = Running(self.0.clone());
        Box::pin(Turn {
            events: events(request),
            running: Some(running),
        })
    }

    /// A handle to observe and interrupt the session.
    pub fn control(&self) -> SessionControl {
        self.0.clone()
    }

    /// Ends the session: every further turn is an error.
    pub fn close(&self) {
        *self.0.stage() = Stage::Closed;
    }
}

/// Marks a turn as running until it is dropped.
struct Running(SessionControl);

impl Drop for Running {
    fn drop(&mut self) {
        let mut stage = self.0.stage();
        if matches!(*stage, Stage::Running { .. }) {
            *stage = Stage::Ready;
        }
    }
}

/// The events of a turn, observed for the state of its session.
struct Turn<'a> {
    events: EventStream<'a>,
    running: Option<Running>,
}

impl Stream for Turn<'_> {
    type Item = Result<BackendEvent, BackendError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.events.as_mut().poll_next(cx));
        match &next {
            Some(Ok(BackendEvent::Text { .. })) => {
                if let Some(Running(control)) = &self.running
                    && let Stage::Running { streaming, .. } = &mut *control.stage()
                {
                    *streaming = true;
                }
            }
            // The turn is over, even if its stream is not dropped yet.
            Some(Ok(BackendEvent::End(_)) | Err(_)) | None => self.running = None,
            Some(Ok(_)) => {}
        }
        Poll::Ready(next)
    }
}

/// The only event of a turn in a closed session, and whether it was emitted.
struct Closed(bool);

impl Stream for Closed {
    type Item = Result<BackendEvent, BackendError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let first = !mem::replace(&mut self.0, true);
        Poll::Ready(first.then(|| {
            Err(BackendError::Session {
                message: "the session is closed".to_owned(),
            })
        }))
    }
}

struct TextOnly<'a>(EventStream<'a>);

impl Stream for TextOnly<'_> {
    type Item = Result<String, BackendError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.0.as_mut().poll_next(cx)) {
                Some(Ok(BackendEvent::Text { text })) => return Poll::Ready(Some(Ok(text))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}
