//! The traits that a backend implements: it answers, and a factory creates it for an agent.
//!
//! A backend implements [`AgentBackend::start`] and sessions; everything else is derived from them.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::{Occasion, ResolvedAgent};

use crate::{
    AgentSession, BackendError, EventStream, ExecutionResult, HistoryItem, Opening, ToolHost, TurnRequest,
    fold::collect,
};

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
