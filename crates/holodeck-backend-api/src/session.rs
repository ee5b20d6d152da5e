//! Conversations of several turns, and a handle to observe or interrupt them from elsewhere.

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use async_trait::async_trait;
use futures_core::Stream;
use tokio_util::sync::CancellationToken;

use crate::{
    BackendError, BackendEvent, EventStream, ExecutionResult, SessionHandle, TurnRequest, fold::collect,
};

/// The text of an answer as it arrives.
pub type TextStream<'a> = Pin<Box<dyn Stream<Item = Result<String, BackendError>> + Send + 'a>>;

/// A conversation. One turn at a time: `&mut self` makes a second one a compile error.
#[async_trait]
pub trait AgentSession: Send {
    /// Runs the next turn. The other methods are built on this one.
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_>;

    /// A handle to observe the conversation and to interrupt its running turn from elsewhere.
    fn control(&self) -> SessionControl;

    /// The conversation in the backend's own store, to reopen it later; `None` if the backend has no store.
    fn handle(&self) -> Option<SessionHandle> {
        None
    }

    /// Ends the conversation and releases its resources.
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
    /// Closed; every further turn is an error.
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
    /// Stops the running turn, if any.
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

/// The state that every session has: whether it is open, and the running turn.
#[derive(Debug, Default)]
pub struct SessionCore(SessionControl);

impl SessionCore {
    /// An open session.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a turn with the stream that `events` returns. `events` receives the request with a child token, so that
    /// interrupting this turn does not cancel the caller's token. A closed session returns an error instead.
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

/// The events of a turn; updates the state of its session.
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
        Poll::Ready(first.then(|| Err(BackendError::session("the session is closed".to_owned()))))
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

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    fn text(text: &str) -> BackendEvent {
        BackendEvent::Text {
            text: text.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_session_has_the_states_of_the_contract() {
        let core = SessionCore::new();
        let control = core.control();
        assert_eq!(control.state(), SessionState::Ready);
        for last in [
            Ok(BackendEvent::End(Box::default())),
            Err(BackendError::Cancelled),
        ] {
            let events = [Ok(BackendEvent::Paused), Ok(text("a")), Ok(text("b")), last];
            let mut turn = core.turn(TurnRequest::new("go"), |_| {
                Box::pin(futures::stream::iter(events))
            });
            let mut states = vec![control.state()];
            while turn.next().await.is_some() {
                states.push(control.state());
            }
            let (processing, streaming) = (SessionState::Processing, SessionState::Streaming);
            assert_eq!(
                states,
                [processing, processing, streaming, streaming, SessionState::Ready]
            );
        }
        core.close();
        assert_eq!(control.state(), SessionState::Closed);
        let mut refused = core.turn(TurnRequest::new("go"), |_| Box::pin(futures::stream::empty()));
        assert!(matches!(
            refused.next().await,
            Some(Err(BackendError::Session(_)))
        ));
        assert!(refused.next().await.is_none());
    }

    #[tokio::test]
    async fn dropping_a_turn_makes_its_session_ready() {
        let core = SessionCore::new();
        let mut turn = core.turn(TurnRequest::new("go"), |_| {
            Box::pin(futures::stream::iter([Ok(text("a"))]).chain(futures::stream::pending()))
        });
        assert!(turn.next().await.is_some());
        assert_eq!(core.control().state(), SessionState::Streaming);
        drop(turn);
        assert_eq!(core.control().state(), SessionState::Ready);
    }
}
