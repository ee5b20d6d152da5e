//! Contexts of passages, written by the agent's model or by the tool's `context_model`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Explanation, Occasion, TurnRequest};
use holodeck_model::{HierarchicalDocumentTool, ResolvedAgent};
use holodeck_retrieval::{ContextRequest, ContextWriter, RetrievalError};
use holodeck_turn::{FinishedTurn, drive};
use tokio_util::sync::CancellationToken;

use crate::agent::{
    backends::{BackendSelector, Specialist},
    model_pool::ModelPool,
};

/// The system prompt.
const INSTRUCTIONS: &str = "You describe passages of documents for a search index.";

/// Asks a model with one bounded call for each passage. Nothing is started and no key is read before the first call.
pub(super) struct ModelWriter {
    pool: Arc<ModelPool>,
    specialist: Specialist,
    limit: Duration,
}

impl ModelWriter {
    /// A writer for a tool: its `context_model`, else the agent's own; `None` if there is neither.
    pub(super) fn new(
        agent: &Arc<ResolvedAgent>,
        tool: &HierarchicalDocumentTool,
        backends: &BackendSelector,
    ) -> Option<Self> {
        let limit = agent.execution.llm_timeout.value;
        let mut model = tool
            .context_model
            .as_ref()
            .or(agent.config.model.as_ref())?
            .clone();
        model.max_tokens = Some(tool.context_max_tokens);
        Some(Self {
            pool: ModelPool::new(agent, backends),
            specialist: Specialist {
                model,
                instructions: INSTRUCTIONS.to_owned(),
                response_format: None,
            },
            limit,
        })
    }

    /// Ends the backend if it was started.
    pub(super) async fn close(&self) {
        if let Err(error) = self.pool.close().await {
            tracing::debug!(%error, "the context writer did not shut down cleanly");
        }
    }

    fn context_error(&self, reason: impl Into<Explanation>) -> RetrievalError {
        RetrievalError::Context {
            writer: self.id(),
            reason: Box::new(reason.into()),
        }
    }
}

#[async_trait]
impl ContextWriter for ModelWriter {
    fn id(&self) -> String {
        let model = &self.specialist.model;
        format!("{} {}", model.provider, model.name)
    }

    async fn write(
        &self,
        request: &ContextRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, RetrievalError> {
        let backend = self
            .pool
            .shared(&self.specialist, Occasion::Test)
            .await
            .map_err(|error| self.context_error(error.explanation()))?;
        let mut turn = TurnRequest::new(request.prompt());
        turn.cancel = cancel.clone();
        let FinishedTurn { result, error, .. } = drive(backend.start(turn), Some(self.limit), |_| {}).await;
        match error {
            None => match result.error_reason() {
                None => Ok(result.response),
                Some(reason) => Err(self.context_error(reason.as_ref())),
            },
            Some(BackendError::Cancelled) => Err(RetrievalError::Cancelled),
            Some(error) => Err(self.context_error(error.explanation())),
        }
    }
}
