//! Implements the backend contract: single turns with pooled processes, and sessions.
//!
//! A turn is driven in `turn`, processes are kept in `pool`.

use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, Conversation, EventStream, ExecutionResult,
    HistoryItem, Opening, TurnRequest,
};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::{
    ClaudeOptions,
    connection::Connection,
    core::Core,
    history,
    pool::Pool,
    session::ClaudeSession,
    stored::{Position, StoredConversation},
    turn::{self, OnCancel, Step},
};

/// An agent on Claude Code.
pub struct ClaudeBackend {
    core: Arc<Core>,
    pool: Arc<Pool>,
    warm: OnceCell<()>,
}

/// Asks one question in a new conversation.
pub async fn query(prompt: &str, options: ClaudeOptions) -> Result<ExecutionResult, BackendError> {
    let claude = ClaudeBackend::new(options)?;
    let answer = claude.invoke_once(prompt, &[]).await;
    claude.teardown().await?;
    answer
}

impl ClaudeBackend {
    /// Creates a backend that runs Claude Code with `options`. Does not start a process.
    pub fn new(options: ClaudeOptions) -> Result<Self, BackendError> {
        let core = Arc::new(Core::new(options)?);
        Ok(Self {
            pool: Arc::new(Pool::new(Arc::clone(&core))),
            core,
            warm: OnceCell::new(),
        })
    }

    /// Takes a process for one turn without history.
    async fn take_process(&self) -> Result<Connection, BackendError> {
        self.initialize().await?;
        self.pool.take_for_turn().await
    }

    /// Writes a history for a process to continue from.
    fn write_history(&self, history: &[HistoryItem]) -> Result<StoredConversation, BackendError> {
        let home = self.core.create_home()?;
        let session = Uuid::new_v4().to_string();
        let lines = history::format_conversation(&session, &home, history, self.core.own_tools());
        home.write_conversation(&session, &lines)
            .map_err(|error| BackendError::init(format!("cannot write the earlier messages: {error}")))?;
        let message = None;
        Ok(StoredConversation {
            position: Position { session, message },
            home,
        })
    }
}

/// The process of one turn. Unless it is taken out, it ends in the background when the turn's stream is dropped.
struct Lease<'a> {
    core: &'a Core,
    connection: Option<Connection>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.core.abandon(connection);
        }
    }
}

#[async_trait]
impl AgentBackend for ClaudeBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        self.warm.get_or_try_init(|| self.pool.warm()).await?;
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        Box::pin(stream! {
            if let Err(error) = self.core.check_message(&request.message) {
                yield Err(error);
                return;
            }
            // Starting a process has its own time limit and does not count as time of the turn.
            yield Ok(BackendEvent::Paused);
            let process = tokio::select! {
                biased;
                () = request.cancel.cancelled() => Err(BackendError::Cancelled),
                process = self.take_process() => process,
            };
            yield Ok(BackendEvent::Resumed);
            let mut lease = match process {
                Ok(connection) => Lease { core: &self.core, connection: Some(connection) },
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let Some(connection) = lease.connection.as_mut() else { return };
            connection.set_caller(&request, Conversation::new());
            let mut end = None;
            {
                let mut steps = pin!(turn::run(&self.core, connection, request, OnCancel::Abandon));
                while let Some(step) = steps.next().await {
                    match step {
                        Ok(Step::Event(event)) => yield Ok(event),
                        Ok(Step::Done(done)) => end = Some(Ok(*done)),
                        Ok(Step::Interrupted(_) | Step::NeverBegan) => {}
                        Err(error) => end = Some(Err(error)),
                    }
                }
            }
            match end {
                Some(Ok(done)) => {
                    if done.position.is_some() && let Some(connection) = lease.connection.take() {
                        self.pool.give_back(connection);
                    }
                    drop(lease);
                    yield Ok(BackendEvent::End(Box::new(done.result)));
                }
                Some(Err(error)) => {
                    drop(lease);
                    yield Err(error);
                }
                None => {}
            }
        })
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let (core, pool) = (Arc::clone(&self.core), Arc::clone(&self.pool));
        let mut stored = opening
            .handle
            .as_ref()
            .and_then(|handle| self.core.take_stored(handle));
        if stored.is_none() && !opening.history.is_empty() {
            stored = Some(self.write_history(&opening.whole_history())?);
        }
        let connection = if let Some(stored) = &stored {
            core.resume(stored).await?
        } else {
            self.initialize().await?;
            pool.take_for_conversation().await?
        };
        let session = ClaudeSession::new(core, pool, connection, stored);
        Ok(Box::new(session))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.pool.close().await;
        Ok(())
    }
}
