//! Wraps a backend so that its turns become spans and metrics, without changing their events.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use async_trait::async_trait;
use futures_core::Stream;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, Opening, SessionControl,
    SessionHandle, TurnRequest,
};
use uuid::Uuid;

use crate::{running::BackendPart, turn::TurnTrace};

/// A backend whose turns become spans and metrics.
pub(crate) struct TracedBackend {
    inner: Arc<dyn AgentBackend>,
    running: Arc<BackendPart>,
}

impl TracedBackend {
    pub(crate) fn new(inner: Arc<dyn AgentBackend>, running: Arc<BackendPart>) -> Self {
        Self { inner, running }
    }
}

#[async_trait]
impl AgentBackend for TracedBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        self.inner.initialize().await
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let turn = TurnTrace::new(Arc::clone(&self.running), &request, None);
        traced(self.inner.start(request), turn)
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(TracedSession {
            inner: self.inner.open_session(opening).await?,
            running: Arc::clone(&self.running),
            id: Uuid::new_v4().to_string(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.inner.teardown().await
    }
}

struct TracedSession {
    inner: Box<dyn AgentSession>,
    running: Arc<BackendPart>,
    /// Identifies the session until the backend reports a conversation id.
    id: String,
}

#[async_trait]
impl AgentSession for TracedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let turn = TurnTrace::new(Arc::clone(&self.running), &request, Some(self.id.clone()));
        traced(self.inner.turn(request), turn)
    }

    fn control(&self) -> SessionControl {
        self.inner.control()
    }

    fn handle(&self) -> Option<SessionHandle> {
        self.inner.handle()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.inner.close().await
    }
}

fn traced(inner: EventStream<'_>, turn: TurnTrace) -> EventStream<'_> {
    Box::pin(Traced { inner, turn })
}

struct Traced<'a> {
    inner: EventStream<'a>,
    turn: TurnTrace,
}

impl Stream for Traced<'_> {
    type Item = Result<BackendEvent, BackendError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.inner.as_mut().poll_next(cx));
        match &item {
            Some(Ok(event)) => self.turn.on(event),
            Some(Err(error)) => self.turn.failed(error),
            None => {}
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}
