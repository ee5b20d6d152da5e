//! The traits that a backend implements, and the request for one turn.
//!
//! A backend implements [`AgentBackend::start`] and sessions; everything else is derived from them.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use futures_core::Stream;
use holodeck_model::{Occasion, ResolvedAgent};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentSession, Approver, BackendError, BackendEvent, ExecutionResult, HistoryItem, Image, Opening,
    Spending, ToolHost, fold::collect,
};

/// The events of one turn; the last one is [`BackendEvent::End`] or an error.
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<BackendEvent, BackendError>> + Send + 'a>>;

/// An agent that is ready to answer.
#[async_trait]
pub trait AgentBackend: Send + Sync {
    /// Prepares the backend. Idempotent; the first use does it implicitly.
    async fn initialize(&self) -> Result<(), BackendError>;

    /// Runs one turn of a new conversation. The other methods for single turns are built on this one.
    fn start(&self, request: TurnRequest) -> EventStream<'_>;

    /// Opens a new or an existing conversation.
    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError>;

    /// Releases the backend's resources.
    async fn teardown(&self) -> Result<(), BackendError>;

    /// Opens a new conversation.
    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError> {
        self.open_session(Opening::default()).await
    }

    /// Runs one turn after `history` and waits for the result.
    async fn invoke_once(
        &self,
        message: &str,
        history: &[HistoryItem],
    ) -> Result<ExecutionResult, BackendError> {
        if history.is_empty() {
            let turn = self.start(TurnRequest::new(message));
            return collect(turn).await.map_err(|failed| failed.error);
        }
        let mut session = self.open_session(Opening::after(history)).await?;
        let result = session.send(message).await;
        let closed = session.close().await;
        let result = result?;
        closed.map(|()| result)
    }
}

/// Creates the backend of an agent. The engines depend only on this trait.
#[async_trait]
pub trait BackendFactory: Send + Sync {
    /// Creates a backend for `agent` on `occasion` with the tools of `tools`.
    async fn create(
        &self,
        agent: Arc<ResolvedAgent>,
        occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError>;
}

/// Whether the model reasons before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "off, or on with a budget")]
pub enum Thinking {
    /// It does not.
    Off,
    /// It does, with at most this many tokens. Newer models ignore the number.
    Budget(u32),
}

/// One turn to run.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The message of the user.
    pub message: String,
    /// Images attached to the message.
    pub images: Vec<Image>,
    /// The unit that the turn belongs to, such as a test case; see [`ModelRequest::unit`](crate::ModelRequest::unit).
    pub unit: Option<String>,
    /// Which trial of its test case the turn belongs to, from 0: what tools keep in one trial is hidden from the others.
    pub trial: u32,
    /// Whether the model reasons before it answers; `None`: as configured. A backend that cannot choose it for one turn says
    /// so in a [`Notice`](crate::BackendEvent::Notice).
    pub thinking: Option<Thinking>,
    /// Whether the oldest turns of the conversation may be left out of a request that is too long for the model; a
    /// [`Notice`](crate::BackendEvent::Notice) says so. A test would judge another conversation.
    pub may_forget: bool,
    /// Whether to ask for the odds of the numbers in the answer. A backend or an endpoint that knows none ignores it.
    pub number_odds: bool,
    /// Collects the usage of model calls made by tools; the turn's result contains the agent's own usage.
    pub spending: Spending,
    /// Receives the W3C `traceparent` of the turn's span, if the turn is traced.
    pub traceparent: Arc<OnceLock<String>>,
    /// Decides about the turn's tool calls; `None` selects the backend's own approver.
    pub approver: Option<Arc<dyn Approver>>,
    /// Stops the turn; content received so far is kept.
    pub cancel: CancellationToken,
}

impl TurnRequest {
    /// A turn with only this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            images: Vec::new(),
            unit: None,
            trial: 0,
            thinking: None,
            may_forget: false,
            number_odds: false,
            spending: Spending::new(),
            traceparent: Arc::default(),
            approver: None,
            cancel: CancellationToken::new(),
        }
    }
}

/// The next item of a stream, without a combinator crate.
pub(crate) async fn next<T>(stream: &mut Pin<Box<dyn Stream<Item = T> + Send + '_>>) -> Option<T> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}
