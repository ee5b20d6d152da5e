use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_stream::stream;
use async_trait::async_trait;
use futures::{Stream, StreamExt as _};
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, BackendFactory, Capabilities, ContextMessage,
    EventStream, Image, NoTools, Occasion, Role, SessionControl, SessionCore, ToolHost, TurnRequest,
};
use holodeck_model::LoadedAgent;

use crate::ScriptedTurn;

type Script = Arc<dyn Fn(&Asked) -> ScriptedTurn + Send + Sync>;

/// A backend without a model: each turn goes as a closure says. For tests of what runs agents.
#[derive(Clone)]
pub struct ScriptedBackend {
    script: Script,
    tools: Arc<dyn ToolHost>,
    turns: Arc<AtomicUsize>,
}

/// What a scripted backend is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The message.
    pub message: String,
    /// Its pictures.
    pub images: Vec<Image>,
    /// What was said before.
    pub history: Vec<ContextMessage>,
    /// What asks.
    pub unit: Option<String>,
    /// How many turns were asked for before this one.
    pub index: usize,
}

impl ScriptedBackend {
    /// A backend that goes as `script` says.
    pub fn answering(script: impl Fn(&Asked) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            tools: Arc::new(NoTools),
            turns: Arc::default(),
        }
    }

    /// Gives it tools for [`ScriptedTurn::and_call`].
    pub fn with_tools(mut self, tools: Arc<dyn ToolHost>) -> Self {
        self.tools = tools;
        self
    }

    /// Turns started so far.
    pub fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }

    fn run(
        &self,
        history: Vec<ContextMessage>,
        request: TurnRequest,
    ) -> impl Stream<Item = Result<BackendEvent, BackendError>> + Send + use<> {
        let asked = Asked {
            message: request.message,
            images: request.images,
            history,
            unit: request.unit,
            index: self.turns.fetch_add(1, Ordering::SeqCst),
        };
        let turn = (self.script)(&asked);
        let tools = Arc::clone(&self.tools);
        let (cancel, approver) = (request.cancel, request.approver);
        stream! {
            let mut events = pin!(turn.events(tools, approver, cancel.clone()));
            loop {
                match cancel.run_until_cancelled(events.next()).await {
                    Some(Some(event)) => yield event,
                    Some(None) => break,
                    None => {
                        yield Err(BackendError::Cancelled);
                        break;
                    }
                }
            }
        }
    }
}

#[async_trait]
impl AgentBackend for ScriptedBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::streaming()
    }

    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        Box::pin(self.run(request.context.clone(), request))
    }

    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(ScriptedSession {
            backend: self.clone(),
            history: Vec::new(),
            core: SessionCore::new(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl BackendFactory for ScriptedBackend {
    async fn create(
        &self,
        _agent: Arc<LoadedAgent>,
        _occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        Ok(Arc::new(self.clone().with_tools(tools)))
    }
}

struct ScriptedSession {
    backend: ScriptedBackend,
    history: Vec<ContextMessage>,
    core: SessionCore,
}

#[async_trait]
impl AgentSession for ScriptedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let (backend, history) = (&self.backend, &mut self.history);
        self.core.turn(request, |request| {
            let message = request.message.clone();
            let events = backend.run(history.clone(), request);
            Box::pin(events.inspect(move |event| {
                if let Ok(BackendEvent::End(result)) = event
                    && !result.is_error()
                {
                    history.extend([
                        said(Role::User, &message),
                        said(Role::Assistant, &result.response),
                    ]);
                }
            }))
        })
    }

    fn control(&self) -> SessionControl {
        self.core.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.core.close();
        Ok(())
    }
}

fn said(role: Role, content: &str) -> ContextMessage {
    ContextMessage {
        role,
        content: content.to_owned(),
    }
}
