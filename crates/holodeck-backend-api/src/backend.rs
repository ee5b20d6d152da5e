use std::{future::poll_fn, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures_core::Stream;
use holodeck_model::{LoadedAgent, Occasion};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentSession, Approver, BackendError, BackendEvent, ExecutionResult, Image, Spending, ToolHost,
    fold::collect,
};

/// The events of one turn; the last one is [`BackendEvent::End`] or an error.
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<BackendEvent, BackendError>> + Send + 'a>>;

/// An agent ready to be asked.
#[async_trait]
pub trait AgentBackend: Send + Sync {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Prepares the backend. Idempotent, and implied by the first use.
    async fn initialize(&self) -> Result<(), BackendError>;

    /// Runs one turn of a fresh conversation. Everything else about a single turn is built on this.
    fn start(&self, request: TurnRequest) -> EventStream<'_>;

    /// Opens a conversation.
    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError>;

    /// Releases what the backend holds.
    async fn teardown(&self) -> Result<(), BackendError>;

    /// Runs one turn of a fresh conversation, `context` before it, and waits for the result.
    async fn invoke_once(
        &self,
        message: &str,
        context: &[ContextMessage],
    ) -> Result<ExecutionResult, BackendError> {
        let request = TurnRequest {
            context: context.to_vec(),
            ..TurnRequest::new(message)
        };
        collect(self.start(request)).await.map_err(|failed| failed.error)
    }
}

/// Makes the backend of an agent. The engines know only this.
#[async_trait]
pub trait BackendFactory: Send + Sync {
    /// A backend for `agent` on `occasion` with the tools of `tools`.
    async fn create(
        &self,
        agent: Arc<LoadedAgent>,
        occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError>;
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Text arrives while the model writes it.
    pub streaming: bool,
    /// A running turn can be interrupted.
    pub interrupt: bool,
    /// Answers come from a recording.
    pub replayed: bool,
}

impl Capabilities {
    /// Streaming and interruptible, live.
    pub fn streaming() -> Self {
        Self {
            streaming: true,
            interrupt: true,
            replayed: false,
        }
    }
}

/// One turn to run.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// What the person says.
    pub message: String,
    /// Pictures that go with the message.
    pub images: Vec<Image>,
    /// Earlier messages, oldest first. Ignored by sessions, which hold their own.
    pub context: Vec<ContextMessage>,
    /// What asks, for instance a test case; see [`ModelRequest::unit`](crate::ModelRequest::unit).
    pub unit: Option<String>,
    /// Collects what models use that tools of the turn ask; the turn's result holds the agent's own usage.
    pub spending: Spending,
    /// Decides about the turn's tool calls; `None`: the backend's own approver does.
    pub approver: Option<Arc<dyn Approver>>,
    /// Stops the turn; what has arrived is kept.
    pub cancel: CancellationToken,
}

impl TurnRequest {
    /// A turn without context.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            images: Vec::new(),
            context: Vec::new(),
            unit: None,
            spending: Spending::new(),
            approver: None,
            cancel: CancellationToken::new(),
        }
    }
}

/// A message of an earlier turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextMessage {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person.
    User,
    /// The agent.
    Assistant,
}

/// The next item of a stream, without a combinator crate.
pub(crate) async fn next<T>(stream: &mut Pin<Box<dyn Stream<Item = T> + Send + '_>>) -> Option<T> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}
