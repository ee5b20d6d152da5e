//! The contract of a backend over any kind of target.

use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, HistoryFold, HistoryItem, Opening,
    ResultFold, SessionControl, SessionCore, SessionHandle, TurnRequest,
};
use holodeck_http::HttpClient;
use holodeck_model::{AnswerRow, Env, Location, TargetConfig};
use tokio::time::{Instant, sleep_until};

use crate::{
    agui::AgUiAsker,
    answers::AnswersAsker,
    asker::{Asker, Piece},
    conversation::State,
    http::HttpAsker,
    program::ProgramAsker,
    served::ServedAsker,
};

/// The name of this kind of backend in handles of conversations.
const PROVIDER: &str = "target";

/// The surroundings of a target.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct TargetSetup {
    /// The client of services.
    pub client: HttpClient,
    /// The folder of the agent file, where programs run.
    pub folder: PathBuf,
    /// The environment from which programs get harmless variables.
    pub env: Env,
    /// The rows of answers that exist, if the target reads them.
    pub answers: Arc<[AnswerRow]>,
    /// The place of the target's block in the YAML, for errors.
    pub at: Option<Location>,
}

/// A target as the backend of an agent.
pub struct TargetBackend {
    shared: Arc<Shared>,
}

struct Shared {
    asker: Box<dyn Asker>,
    limit: Duration,
}

impl TargetBackend {
    /// The backend of a target.
    pub fn new(target: &TargetConfig, setup: TargetSetup) -> Result<Self, BackendError> {
        let TargetSetup {
            client,
            folder,
            env,
            answers,
            at,
        } = setup;
        let asker: Box<dyn Asker> = match target {
            TargetConfig::Http(config) => Box::new(HttpAsker::new(config, client, at)?),
            TargetConfig::Command(config) => Box::new(ProgramAsker::command(config, folder, &env, at)?),
            TargetConfig::Function(config) => Box::new(ProgramAsker::function(config, folder, &env, at)?),
            TargetConfig::Answers(config) => {
                Box::new(AnswersAsker::new(config.file.to_string(), answers, at)?)
            }
            TargetConfig::AgUi(config) => Box::new(AgUiAsker::new(config, client, at)?),
            TargetConfig::Holodeck(config) => Box::new(ServedAsker::new(config, client, at)?),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                asker,
                limit: target.time_limit(),
            }),
        })
    }
}

#[async_trait]
impl AgentBackend for TargetBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let mut conversation = Conversation {
            shared: Arc::clone(&self.shared),
            state: State::new(Vec::new(), None),
        };
        Box::pin(stream! {
            let Conversation { shared, state } = &mut conversation;
            let mut events = pin!(turn(shared, state, request));
            while let Some(event) = events.next().await {
                yield event;
            }
        })
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let asker = &self.shared.asker;
        let history = opening.whole_history();
        let mut state = State::new(history, None);
        if !asker.sends_history() && !state.history.is_empty() {
            let handle = opening.handle.filter(|handle| {
                handle.provider == PROVIDER
                    && handle.head == state.user_messages().to_string()
                    && asker.names_session()
            });
            let Some(handle) = handle else {
                return Err(BackendError::session(
                    "the target keeps its own conversations, and cannot continue one that it did not have: a fork, an \
                     edited or repeated message, earlier `messages` of a case, a chat of another time",
                )
                .with_hint("a target whose request holds `{{ messages }}` can continue every conversation"));
            };
            state.session_id = handle.id;
            state.is_named = true;
        }
        Ok(Box::new(TargetSession {
            conversation: Conversation {
                shared: Arc::clone(&self.shared),
                state,
            },
            core: SessionCore::new(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.shared.asker.close();
        for path in self.shared.asker.unmatched() {
            tracing::warn!("{path} matched in no answer of the target");
        }
        Ok(())
    }
}

/// One turn, with the time limit of the target. The history grows by what remains of it.
fn turn<'a>(shared: &'a Shared, state: &'a mut State, request: TurnRequest) -> EventStream<'a> {
    Box::pin(stream! {
        let cancel = request.cancel.clone();
        if cancel.is_cancelled() {
            yield Err(BackendError::Cancelled);
            return;
        }
        let deadline = Instant::now() + shared.limit;
        let question = state.question(&request);
        let mut history = HistoryFold::new(&request.message);
        let mut fold = ResultFold::new();
        let mut was_streamed = false;
        let ended = {
            let mut pieces = shared.asker.ask(state, question, &request);
            loop {
                let next = tokio::select! {
                    biased;
                    () = cancel.cancelled() => Some(Err(BackendError::Cancelled)),
                    next = pieces.next() => next,
                    () = sleep_until(deadline) => Some(Err(BackendError::Timeout {
                        after: shared.limit,
                        cause: None,
                    })),
                };
                match next {
                    Some(Ok(Piece::Text(text))) => {
                        was_streamed = true;
                        let event = BackendEvent::Text { text };
                        history.observe(&event);
                        fold.observe(&event);
                        yield Ok(event);
                    }
                    Some(Ok(Piece::Event(event))) => yield Ok(event),
                    Some(Ok(Piece::Done(parts))) => break Ok(parts),
                    Some(Err(error)) => break Err(error),
                    None => break Err(BackendError::no_result()),
                }
            }
        };
        let answered = ended.and_then(|parts| {
            if let Some(session) = &parts.session {
                state.session_id.clone_from(session);
                state.is_named = true;
            }
            state.events(*parts, was_streamed)
        });
        match answered {
            Ok(answered) => {
                for event in answered.events {
                    history.observe(&event);
                    fold.observe(&event);
                    yield Ok(event);
                }
                state.history.extend(history.answered());
                let result = fold.finish_answered(&answered.stop_reason);
                yield Ok(BackendEvent::End(Box::new(result)));
            }
            Err(error) => {
                // A failed turn does not change the history, so that it can be retried.
                if matches!(error, BackendError::Cancelled) {
                    state.history.extend(history.interrupted());
                }
                yield Err(error);
            }
        }
    })
}

/// The state of a conversation. Dropping it frees what it used for other conversations.
struct Conversation {
    shared: Arc<Shared>,
    state: State,
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.shared.asker.release(&mut self.state);
    }
}

/// A conversation with a target.
struct TargetSession {
    conversation: Conversation,
    core: SessionCore,
}

#[async_trait]
impl AgentSession for TargetSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let Conversation { shared, state } = &mut self.conversation;
        self.core.turn(request, |request| turn(shared, state, request))
    }

    fn control(&self) -> SessionControl {
        self.core.control()
    }

    fn handle(&self) -> Option<SessionHandle> {
        let Conversation { shared, state } = &self.conversation;
        let asker = &shared.asker;
        let keeps = !asker.sends_history() && asker.names_session();
        keeps.then(|| SessionHandle {
            provider: PROVIDER.to_owned(),
            id: state.session_id.clone(),
            head: state.user_messages().to_string(),
        })
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.core.close();
        let Conversation { shared, state } = &mut self.conversation;
        shared.asker.release(state);
        *state = State::new(Vec::<HistoryItem>::new(), None);
        Ok(())
    }
}
