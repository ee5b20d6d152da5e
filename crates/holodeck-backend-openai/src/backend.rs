//! Implements the backend contract on Chat Completions. Turns run in `turn`, requests are sent through `ModelCalls`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, AnswerFormat, Approver, BackendError, BackendEvent, Conversation,
    EventStream, ModelCalls, Opening, TokenUsage, ToolFilter, ToolHost, TurnRequest,
};
use holodeck_model::{Location, ModelConfig, ResolvedAgent};

use crate::{
    core::Core,
    session::OpenAiSession,
    turn::{self, Step},
    wire_message,
};

/// An agent on any endpoint that implements Chat Completions.
pub struct OpenAiBackend {
    core: Arc<Core>,
}

impl OpenAiBackend {
    /// Creates the backend of `agent` with an answer format, the tools of `tools`, and its `model`, which is reached through `calls`.
    pub fn new(
        agent: &ResolvedAgent,
        model: &ModelConfig,
        format: Option<Arc<dyn AnswerFormat>>,
        tools: Arc<dyn ToolHost>,
        calls: Arc<dyn ModelCalls>,
    ) -> Self {
        Self {
            core: Arc::new(Core::new(agent, model, format, tools, calls)),
        }
    }

    /// Offers the model only the tools that `filter` chooses for each message.
    pub fn with_tool_filter(mut self, filter: Arc<dyn ToolFilter>) -> Self {
        // No other reference exists before the first turn.
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.set_filter(filter);
        }
        self
    }

    /// Sets the approver of tool calls for turns without their own. Without an approver, all calls run.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.approver = Some(approver);
        }
        self
    }

    /// Sets the prices for `openai.max_budget_usd`: the cost of a model's tokens in US dollars, if known.
    pub fn prices(
        mut self,
        price: impl Fn(&str, &TokenUsage) -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.price = Some(Box::new(price));
        }
        self
    }

    /// Lets errors name the place of a field in the YAML.
    pub fn with_locations(mut self, locate: impl Fn(&str) -> Option<Location>) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.locate_fields(locate);
        }
        self
    }
}

#[async_trait]
impl AgentBackend for OpenAiBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let steps = turn::run(&self.core, Vec::new(), request, Conversation::new());
        Box::pin(steps.map(|step| {
            step.map(|step| match step {
                Step::Event(event) => event,
                Step::End(end) => BackendEvent::End(Box::new(end.result)),
            })
        }))
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let history = wire_message::history(&opening.whole_history(), &self.core.model);
        Ok(Box::new(OpenAiSession::new(Arc::clone(&self.core), history)))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
