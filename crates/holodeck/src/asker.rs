//! Questions to a model beside the agent's own: those of prompt tools and of MCP servers.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendEvent, BackendFactory as _, EventStream, NoTools, Occasion,
    StopReason, ToolCx, ToolUsage, TurnRequest, collect,
};
use holodeck_model::{Env, LoadedAgent, Provider};

use crate::{Answers, BackendSelector};

/// Puts questions to a model for a tool.
pub(crate) struct Asker {
    agent: Arc<LoadedAgent>,
    factory: BackendSelector,
    lasting: Option<Arc<dyn AgentBackend>>,
}

/// What the model said.
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The model's own name.
    pub(crate) model: Option<String>,
    pub(crate) stop_reason: Option<StopReason>,
}

impl Asker {
    /// Asks the model of `agent`, which has nothing else: see [`LoadedAgent::for_one_question`].
    pub(crate) fn new(agent: LoadedAgent, env: &Env, answers: &Answers) -> Self {
        Self {
            agent: Arc::new(agent),
            factory: BackendSelector::new(env.clone(), answers.clone()),
            lasting: None,
        }
    }

    /// One that is made ready once for many questions. On Claude Code each has a process; none waits for the next.
    pub(crate) async fn lasting(mut self) -> Result<Self, BackendError> {
        if self.agent.config.model.provider != Provider::Anthropic {
            self.lasting = Some(self.backend().await?);
        }
        Ok(self)
    }

    async fn backend(&self) -> Result<Arc<dyn AgentBackend>, BackendError> {
        let agent = Arc::clone(&self.agent);
        self.factory.create(agent, Occasion::Run, Arc::new(NoTools)).await
    }

    /// Asks for the call of a tool, to whose turn it is counted.
    pub(crate) async fn ask(&self, request: TurnRequest, cx: &ToolCx) -> Result<Answer, BackendError> {
        let backend = match &self.lasting {
            Some(backend) => Arc::clone(backend),
            None => self.backend().await?,
        };
        let request = TurnRequest {
            unit: cx.unit.clone(),
            cancel: cx.cancel.clone(),
            ..request
        };
        let ended = Mutex::new(None);
        let heard: EventStream<'_> = Box::pin(backend.start(request).inspect(|event| {
            if let Ok(BackendEvent::TurnEnd { stop_reason, .. }) = event {
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop_reason.clone());
            }
        }));
        let result = collect(heard).await;
        if self.lasting.is_none() {
            backend.teardown().await?;
        }
        let came = match &result {
            Ok(result) => result,
            Err(failed) => &failed.partial,
        };
        if came.token_usage.is_some() || came.num_turns > 0 {
            cx.spending.add(ToolUsage {
                model: self.agent.config.model.name.clone(),
                answered_by: came.model.clone(),
                usage: came.token_usage,
            });
        }
        let result = result.map_err(|failed| failed.error)?;
        match result.error_reason() {
            None => Ok(Answer {
                text: result.response,
                model: result.model,
                stop_reason: ended.into_inner().unwrap_or_else(PoisonError::into_inner),
            }),
            Some(reason) => Err(BackendError::Session {
                message: reason.into_owned(),
            }),
        }
    }
}
