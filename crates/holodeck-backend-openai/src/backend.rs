use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, Approver, BackendError, BackendEvent, Capabilities, Conversation,
    EventStream, ModelCalls, Opening, TokenUsage, ToolFilter, ToolHost, TurnRequest,
};
use holodeck_model::LoadedAgent;

use crate::{
    core::Core,
    session::OpenAiSession,
    turn::{self, Step},
    wire_message,
};

/// An agent on any endpoint that speaks Chat Completions.
pub struct OpenAiBackend {
    core: Arc<Core>,
    capabilities: Capabilities,
}

impl OpenAiBackend {
    /// The backend of `agent`, with the tools of `tools`, reaching its model through `calls`.
    pub fn new(
        agent: &LoadedAgent,
        tools: Arc<dyn ToolHost>,
        calls: Arc<dyn ModelCalls>,
    ) -> Result<Self, BackendError> {
        Ok(Self {
            core: Arc::new(Core::new(agent, tools, calls)?),
            capabilities: Capabilities::streaming(),
        })
    }

    /// Shows the model only the tools that `filter` chooses for each message.
    pub fn filtered(mut self, filter: Arc<dyn ToolFilter>) -> Self {
        // Nothing else holds it before the first turn.
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.filtered(filter);
        }
        self
    }

    /// Decides about tool calls, unless a turn brings an approver of its own. Without one all of them run.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.approver = Some(approver);
        }
        self
    }

    /// Holds `openai.max_budget_usd` by these prices: what tokens of a model cost in US dollars, if that is known.
    pub fn prices(
        mut self,
        price: impl Fn(&str, &TokenUsage) -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.price = Some(Box::new(price));
        }
        self
    }

    /// Says that the model calls come from a recording.
    pub fn replayed(mut self) -> Self {
        self.capabilities.replayed = true;
        self
    }
}

#[async_trait]
impl AgentBackend for OpenAiBackend {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let steps = turn::run(&self.core, Vec::new(), request, Conversation::new());
        Box::pin(steps.map(|step| {
            step.map(|step| match step {
                Step::Event(event) => event,
                Step::Done(done) => BackendEvent::End(Box::new(done.result)),
            })
        }))
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let history = wire_message::history(&opening.whole_history());
        Ok(Box::new(OpenAiSession::new(Arc::clone(&self.core), history)))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
