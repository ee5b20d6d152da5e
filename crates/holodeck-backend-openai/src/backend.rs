use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, Approver, BackendError, BackendEvent, Capabilities, Conversation,
    EventStream, ModelCalls, ToolFilter, ToolHost, TurnRequest,
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
        let history = request.context.iter().map(wire_message::context).collect();
        let steps = turn::run(&self.core, history, request, Conversation::new());
        Box::pin(steps.map(|step| {
            step.map(|step| match step {
                Step::Event(event) => event,
                Step::Done(done) => BackendEvent::End(Box::new(done.result)),
            })
        }))
    }

    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(OpenAiSession::new(Arc::clone(&self.core))))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
