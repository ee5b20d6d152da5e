//! Contexts of passages, written by the agent's model or one of its own.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{AgentBackend, BackendError, BackendFactory as _, NoTools, Occasion, TurnRequest};
use holodeck_model::{ClaudeConfig, Env, HierarchicalDocumentTool, LoadedAgent};
use holodeck_retrieval::{ContextRequest, ContextWriter, RetrievalError};
use holodeck_turn::{Driven, drive};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{Answers, BackendSelector};

/// What the model is told that it is.
const INSTRUCTIONS: &str = "You describe passages of documents for a search index.";

/// Asks a model, one bounded call for each passage. Nothing is started, and no key looked for, before the first.
pub(super) struct ModelWriter {
    agent: Arc<LoadedAgent>,
    env: Env,
    answers: Answers,
    backend: OnceCell<Arc<dyn AgentBackend>>,
    limit: Duration,
}

impl ModelWriter {
    /// A writer for a tool: its `context_model`, else the agent's own.
    pub(super) fn new(
        agent: &LoadedAgent,
        tool: &HierarchicalDocumentTool,
        env: &Env,
        answers: Answers,
    ) -> Self {
        let limit = agent.execution.llm_timeout.value;
        Self {
            agent: Arc::new(writing(agent, tool)),
            env: env.clone(),
            answers,
            backend: OnceCell::new(),
            limit,
        }
    }

    async fn backend(&self) -> Result<&Arc<dyn AgentBackend>, BackendError> {
        self.backend
            .get_or_try_init(|| async {
                let factory = BackendSelector::new(self.env.clone(), self.answers.clone());
                let backend = factory
                    .create(Arc::clone(&self.agent), Occasion::Test, Arc::new(NoTools))
                    .await?;
                backend.initialize().await?;
                Ok(backend)
            })
            .await
    }

    /// Ends what was started.
    pub(super) async fn close(&self) {
        if let Some(backend) = self.backend.get()
            && let Err(error) = backend.teardown().await
        {
            tracing::debug!(%error, "the writer of contexts did not end in order");
        }
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> RetrievalError {
        RetrievalError::Context {
            writer: self.id(),
            reason: reason.to_string(),
        }
    }
}

#[async_trait]
impl ContextWriter for ModelWriter {
    fn id(&self) -> String {
        let model = &self.agent.config.model;
        format!("{} {}", model.provider, model.name)
    }

    async fn write(
        &self,
        request: &ContextRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, RetrievalError> {
        let backend = self.backend().await.map_err(|error| self.failed(&error))?;
        let mut turn = TurnRequest::new(request.prompt());
        turn.cancel = cancel.clone();
        let Driven { result, error, .. } = drive(backend.start(turn), Some(self.limit), |_| {}).await;
        match error {
            None => match result.error_reason() {
                None => Ok(result.response),
                Some(reason) => Err(self.failed(&reason)),
            },
            Some(BackendError::Cancelled) => Err(RetrievalError::Cancelled),
            Some(error) => Err(self.failed(&error)),
        }
    }
}

/// The agent without all that it does besides answering.
fn writing(agent: &LoadedAgent, tool: &HierarchicalDocumentTool) -> LoadedAgent {
    let mut agent = agent.clone();
    let config = &mut agent.config;
    if let Some(model) = &tool.context_model {
        config.model = model.clone();
    }
    config.model.max_tokens = Some(tool.context_max_tokens);
    config.tools.clear();
    config.test_cases.clear();
    config.response_format = None;
    config.tool_filtering = None;
    config.approvals = None;
    config.evaluations = None;
    config.observability = None;
    config.claude = config.claude.take().map(|claude| ClaudeConfig {
        cli_path: claude.cli_path,
        ..ClaudeConfig::default()
    });
    config.openai = None;
    agent.response_format = None;
    INSTRUCTIONS.clone_into(&mut agent.instructions.text);
    agent
}
