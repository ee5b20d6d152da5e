//! Asks models on behalf of tools: for prompt tools and MCP servers.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendEvent, EventStream, HistoryItem, Occasion, Opening, StopReason,
    ToolCx, ToolUsage, TurnRequest, collect,
};
use holodeck_model::{Provider, ResolvedAgent};

use crate::agent::{
    backends::{BackendSelector, Specialist},
    model_pool::ModelPool,
};

/// Asks a model for a tool.
pub(crate) struct Asker {
    pool: Arc<ModelPool>,
    specialist: Specialist,
    /// Whether all questions share a backend; otherwise each gets a new one.
    is_shared: bool,
}

/// The answer of the model.
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The name that the model reports.
    pub(crate) model: Option<String>,
    pub(crate) stop_reason: Option<StopReason>,
}

impl Asker {
    /// An asker for a specialist of `agent`.
    pub(crate) fn new(agent: &ResolvedAgent, specialist: Specialist, backends: &BackendSelector) -> Self {
        let agent = Arc::new(agent.for_one_question(specialist.model.clone()));
        Self {
            pool: ModelPool::new(&agent, backends),
            specialist,
            is_shared: false,
        }
    }

    /// Prepares one backend for all questions. On Claude Code each question gets its own process, so that questions do
    /// not wait for each other.
    pub(crate) async fn reuse_backend(mut self) -> Result<Self, BackendError> {
        if self.specialist.model.provider != Provider::Anthropic {
            self.is_shared = true;
            self.backend().await?;
        }
        Ok(self)
    }

    async fn backend(&self) -> Result<Arc<dyn AgentBackend>, BackendError> {
        if self.is_shared {
            self.pool.shared(&self.specialist, Occasion::Run).await
        } else {
            self.pool.fresh(&self.specialist, Occasion::Run).await
        }
    }

    /// Asks the model during a tool call. Usage counts towards the turn of the call.
    pub(crate) async fn ask(
        &self,
        history: Vec<HistoryItem>,
        request: TurnRequest,
        cx: &ToolCx,
    ) -> Result<Answer, BackendError> {
        let backend = self.backend().await?;
        let request = TurnRequest {
            unit: cx.unit.clone(),
            cancel: cx.cancel.clone(),
            ..request
        };
        let last_stop = Mutex::new(None);
        let mut session = None;
        let events = if history.is_empty() {
            backend.start(request)
        } else {
            let new = backend.open_session(Opening::after(history)).await?;
            session.insert(new).turn(request)
        };
        let events: EventStream<'_> = Box::pin(events.inspect(|event| {
            if let Ok(BackendEvent::TurnEnd { stop_reason, .. }) = event {
                *last_stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop_reason.clone());
            }
        }));
        let result = collect(events).await;
        if let Some(mut session) = session {
            session.close().await?;
        }
        if !self.is_shared {
            backend.teardown().await?;
        }
        let outcome = match &result {
            Ok(result) => result,
            Err(failed) => &failed.partial,
        };
        if outcome.token_usage.is_some() || outcome.num_turns > 0 {
            cx.spending.add(ToolUsage {
                model: self.specialist.model.name.clone(),
                answered_by: outcome.model.clone(),
                usage: outcome.token_usage,
                cost_usd: outcome.cost_usd,
            });
        }
        let result = result.map_err(|failed| failed.error)?;
        match result.error_reason() {
            None => Ok(Answer {
                text: result.response,
                model: result.model,
                stop_reason: last_stop.into_inner().unwrap_or_else(PoisonError::into_inner),
            }),
            Some(reason) => Err(BackendError::session(reason.into_owned())),
        }
    }
}
