//! A backend without a model, for tests of everything that runs agents.

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
    AgentBackend, AgentSession, AnswerWishes, BackendError, BackendEvent, BackendFactory, EventStream,
    HistoryFold, HistoryItem, Image, NoTools, Occasion, Opening, SessionControl, SessionCore, Thinking,
    ToolHost, TurnRequest,
};
use holodeck_model::ResolvedAgent;

use crate::ScriptedTurn;

type Script = Arc<dyn Fn(&Asked) -> ScriptedTurn + Send + Sync>;

/// A backend without a model: a closure scripts each turn. For tests of what runs agents.
#[derive(Clone)]
pub struct ScriptedBackend {
    script: Script,
    tools: Arc<dyn ToolHost>,
    turns: Arc<AtomicUsize>,
}

/// A request to a scripted backend.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The message.
    pub message: String,
    /// Its pictures.
    pub images: Vec<Image>,
    /// The conversation so far.
    pub history: Vec<HistoryItem>,
    /// Whether the model reasons, if the turn says so.
    pub thinking: Option<Thinking>,
    /// The limits and the form that a client asks for.
    pub wishes: AnswerWishes,
    /// The occasion.
    pub unit: Option<String>,
    /// Number of earlier turns.
    pub index: usize,
}

impl ScriptedBackend {
    /// A backend with the turns of `script`.
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
        history: Vec<HistoryItem>,
        request: TurnRequest,
    ) -> impl Stream<Item = Result<BackendEvent, BackendError>> + Send + use<> {
        let asked = Asked {
            message: request.message,
            images: request.images,
            history,
            thinking: request.thinking,
            wishes: request.wishes,
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
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        Box::pin(self.run(Vec::new(), request))
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(ScriptedSession {
            backend: self.clone(),
            history: opening.whole_history(),
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
        _agent: Arc<ResolvedAgent>,
        _occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        Ok(Arc::new(self.clone().with_tools(tools)))
    }
}

struct ScriptedSession {
    backend: ScriptedBackend,
    history: Vec<HistoryItem>,
    core: SessionCore,
}

#[async_trait]
impl AgentSession for ScriptedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let (backend, history) = (&self.backend, &mut self.history);
        self.core.turn(request, |request| {
            let message = request.message.clone();
            let events = backend.run(history.clone(), request);
            let mut arrived = HistoryFold::new(&message);
            Box::pin(events.inspect(move |event| match event {
                Ok(BackendEvent::End(result)) if !result.is_error() => {
                    history.extend([
                        HistoryItem::user(message.clone()),
                        HistoryItem::assistant(result.response.clone()),
                    ]);
                }
                Ok(event) => arrived.observe(event),
                Err(BackendError::Cancelled) => {
                    let arrived = std::mem::replace(&mut arrived, HistoryFold::new(""));
                    history.extend(arrived.interrupted());
                }
                Err(_) => {}
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
