//! The executor of a message of an open agent: the agent itself, or the facade of routing.
//!
//! Tests, conversations and servers hold it as an `AgentBackend` like any other. It must not know who asks.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, HistoryFold, HistoryItem, Occasion,
    Opening, SessionControl, SessionCore, SessionHandle, TurnRequest,
};
use holodeck_model::{Agent, Command, CommandContext, Env, ExecutorRecord, PLAIN_COMMAND};
use holodeck_orchestrator::{ExecuteOptions, Specialists as _, TurnObserver};

use super::{
    Choice, RoutedAgent, RoutedError, RoutingOverrides, new_session_id, record::Recorder,
    settings::RoutingSettings,
};
use crate::{OpenAgent, agent::open::OpenError};

/// Why an agent has no executor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The agent cannot be asked.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its routing cannot be used.
    #[error(transparent)]
    Routing(#[from] RoutedError),
}

/// The commands of an agent that may be routed, all layers of settings applied.
pub(crate) fn routed_commands(agent: &Agent, env: &Env) -> Vec<String> {
    RoutingSettings::new(agent, env, &RoutingOverrides::default()).commands
}

impl OpenAgent {
    /// The executor of a message, also of a conversation: the agent itself, or the facade of routing. Each result says which.
    pub fn executor(
        self: &Arc<Self>,
        env: &Env,
        occasion: Occasion,
        timeout: Option<Duration>,
    ) -> Result<Arc<dyn AgentBackend>, ExecutorError> {
        let itself = self.answering().map_err(OpenError::from)?.cloned();
        if let (Some(itself), None) = (&itself, &self.agent().config.routing) {
            return Ok(Arc::clone(itself));
        }
        let routed = RoutedAgent::of_open(self, env, occasion, timeout)?;
        Ok(Arc::new(RoutedBackend(Arc::new(Parts { routed, itself }))))
    }
}

/// An agent with `routing:` as a backend.
pub(crate) struct RoutedBackend(Arc<Parts>);

struct Parts {
    routed: RoutedAgent,
    /// The agent itself; `None` if its backend cannot be used on this machine.
    itself: Option<Arc<dyn AgentBackend>>,
}

#[async_trait]
impl AgentBackend for RoutedBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        match &self.0.itself {
            Some(itself) => itself.initialize().await,
            None => Ok(()),
        }
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        match (self.0.choose(&request), &self.0.itself) {
            (Choice::Itself(_), Some(itself)) => {
                let record = self.0.record_itself(&request);
                with_record(itself.start(request), record)
            }
            (choice, _) => self.0.execute(choice, request),
        }
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(RoutedSession {
            parts: Arc::clone(&self.0),
            core: SessionCore::new(),
            history: opening.history,
            handle: opening.handle,
            own: None,
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.0.routed.close_parts().await;
        match &self.0.itself {
            Some(itself) => itself.teardown().await,
            None => Ok(()),
        }
    }
}

impl Parts {
    fn choose(&self, request: &TurnRequest) -> Choice {
        if request.command.agent.is_some() {
            return Choice::Facade;
        }
        self.routed
            .choose(request.command.name.is_some(), &ExecuteOptions::default())
    }

    /// The record of a message that the agent itself answers.
    fn record_itself(&self, request: &TurnRequest) -> ExecutorRecord {
        let choice = self.choose(request);
        self.routed.record_of_itself(choice, PLAIN_COMMAND)
    }

    /// The events of a message that a facade executes.
    fn execute(&self, choice: Choice, request: TurnRequest) -> EventStream<'_> {
        match request.command.agent.clone() {
            Some(agent) => self.ask_again(agent, request),
            None => self.select_and_execute(choice, request),
        }
    }

    /// Asks the specialist that answered the question before.
    fn ask_again(&self, agent: String, request: TurnRequest) -> EventStream<'_> {
        Box::pin(stream! {
            let ready = match self.routed.variants.open(&agent).await {
                Ok(ready) => ready,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let mut events = ready.backend.start(request);
            while let Some(event) = events.next().await {
                yield event;
            }
        })
    }

    fn select_and_execute(&self, choice: Choice, request: TurnRequest) -> EventStream<'_> {
        Box::pin(stream! {
            // Each executor has the time limit of a turn.
            yield Ok(BackendEvent::LimitLifted);
            let routed = &self.routed;
            let names_command = request.command.name.is_some();
            let context = context(&request, routed.variants.folder.clone());
            let cancel = request.cancel.clone();
            let options = ExecuteOptions {
                message: Some(request),
                cancel,
                ..ExecuteOptions::default()
            };
            let (recorder, recorded) = Recorder::new();
            let mut events = recorded.events;
            let mut settings = routed.facade(choice, names_command);
            settings.turns = Some(Arc::clone(&recorder) as Arc<dyn TurnObserver>);
            let executing = async {
                let outcome = routed.execute_recorded(choice, settings, &context, &options, &recorder);
                // Its end is the last event.
                let _ = outcome.await;
            };
            tokio::pin!(executing);
            let mut is_over = false;
            loop {
                let event = tokio::select! {
                    biased;
                    event = events.recv() => event,
                    () = &mut executing, if !is_over => {
                        is_over = true;
                        continue;
                    }
                };
                let Some(event) = event else { return };
                let is_last = matches!(event, Ok(BackendEvent::End(_)) | Err(_));
                yield event;
                if is_last {
                    return;
                }
            }
        })
    }
}

/// The command of a message.
pub(super) fn context(request: &TurnRequest, folder: Option<PathBuf>) -> CommandContext {
    let name = request.command.name.as_deref().unwrap_or(PLAIN_COMMAND);
    CommandContext {
        command: Command {
            name: name.to_owned(),
            arguments: vec![request.message.clone()],
            ..Command::default()
        },
        session_id: new_session_id(),
        cwd: folder,
        ..CommandContext::default()
    }
}

/// The events of a turn that the agent itself answers, and why it does.
fn with_record(mut events: EventStream<'_>, record: ExecutorRecord) -> EventStream<'_> {
    Box::pin(stream! {
        let record = Box::new(record);
        yield Ok(BackendEvent::Executed(record.clone()));
        while let Some(event) = events.next().await {
            yield match event {
                Ok(BackendEvent::End(mut result)) => {
                    result.execution = Some(record.clone());
                    Ok(BackendEvent::End(result))
                }
                event => event,
            };
        }
    })
}

/// A conversation: an execution does not see it, and its question and answer become turns of it.
struct RoutedSession {
    parts: Arc<Parts>,
    core: SessionCore,
    /// The conversation so far.
    history: Vec<HistoryItem>,
    /// The same in the store of the agent's backend, while the agent has not answered.
    handle: Option<SessionHandle>,
    /// The conversation with the agent itself; opened when it is asked, and again after an execution.
    own: Option<Box<dyn AgentSession>>,
}

#[async_trait]
impl AgentSession for RoutedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let Self {
            parts,
            core,
            history,
            handle,
            own,
        } = self;
        core.turn(request, |request| match (parts.choose(&request), &parts.itself) {
            (Choice::Itself(_), Some(itself)) => {
                let record = parts.record_itself(&request);
                with_record(ask_itself(itself, request, (history, handle, own)), record)
            }
            (choice, _) => execute_apart(parts, choice, request, (history, handle, own)),
        })
    }

    fn control(&self) -> SessionControl {
        self.core.control()
    }

    fn handle(&self) -> Option<SessionHandle> {
        match &self.own {
            Some(own) => own.handle(),
            None => self.handle.clone(),
        }
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.core.close();
        match self.own.take() {
            Some(mut own) => own.close().await,
            None => Ok(()),
        }
    }
}

/// The parts of a conversation that a turn changes.
type Kept<'a> = (
    &'a mut Vec<HistoryItem>,
    &'a mut Option<SessionHandle>,
    &'a mut Option<Box<dyn AgentSession>>,
);

/// A turn of the conversation with the agent itself.
fn ask_itself<'a>(
    itself: &'a Arc<dyn AgentBackend>,
    request: TurnRequest,
    (history, handle, own): Kept<'a>,
) -> EventStream<'a> {
    Box::pin(stream! {
        if own.is_none() {
            let opening = Opening {
                history: history.clone(),
                handle: handle.take(),
            };
            match itself.open_session(opening).await {
                Ok(session) => *own = Some(session),
                Err(error) => {
                    yield Err(error);
                    return;
                }
            }
        }
        let Some(session) = own else { return };
        let mut fold = Some(HistoryFold::new(&request.message));
        let mut events = session.turn(request);
        while let Some(event) = events.next().await {
            match &event {
                Ok(BackendEvent::End(_)) => history.extend(fold.take().into_iter().flat_map(HistoryFold::answered)),
                Ok(event) => {
                    if let Some(fold) = &mut fold {
                        fold.observe(event);
                    }
                }
                Err(_) => history.extend(fold.take().into_iter().flat_map(HistoryFold::interrupted)),
            }
            yield event;
        }
    })
}

/// An execution, which does not see the conversation.
fn execute_apart<'a>(
    parts: &'a Arc<Parts>,
    choice: Choice,
    request: TurnRequest,
    (history, handle, own): Kept<'a>,
) -> EventStream<'a> {
    let question = request.message.clone();
    Box::pin(stream! {
        let mut events = parts.execute(choice, request);
        while let Some(event) = events.next().await {
            if let Ok(BackendEvent::End(result)) = &event
                && !result.response.is_empty()
            {
                history.push(HistoryItem::user(question.as_str()));
                history.push(HistoryItem::assistant(result.response.as_str()));
                // The agent's next message sees them.
                *handle = None;
                if let Some(mut session) = own.take()
                    && let Err(error) = session.close().await
                {
                    tracing::debug!(target: "holodeck::routing", %error, "a conversation did not end cleanly");
                }
            }
            yield event;
        }
    })
}
