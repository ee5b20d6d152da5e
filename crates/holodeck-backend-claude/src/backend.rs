use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, Capabilities, ContextMessage, Conversation,
    EventStream, ExecutionResult, TurnRequest,
};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::{
    ClaudeOptions,
    argv::Begin,
    connection::Connection,
    core::Core,
    history,
    pool::Pool,
    session::ClaudeSession,
    turn::{self, Step},
};

/// An agent on Claude Code.
pub struct ClaudeBackend {
    core: Arc<Core>,
    pool: Arc<Pool>,
    warm: OnceCell<()>,
}

/// Asks one question of a fresh conversation.
pub async fn query(prompt: &str, options: ClaudeOptions) -> Result<ExecutionResult, BackendError> {
    let claude = ClaudeBackend::new(options)?;
    let answer = claude.invoke_once(prompt, &[]).await;
    claude.teardown().await?;
    answer
}

impl ClaudeBackend {
    /// A backend that runs Claude Code as `options` say. Nothing is started yet.
    pub fn new(options: ClaudeOptions) -> Result<Self, BackendError> {
        let core = Arc::new(Core::new(options)?);
        Ok(Self {
            pool: Arc::new(Pool::new(Arc::clone(&core))),
            core,
            warm: OnceCell::new(),
        })
    }

    /// A process that knows `context` and nothing else.
    async fn process(&self, context: &[ContextMessage]) -> Result<Connection, BackendError> {
        if context.is_empty() {
            self.initialize().await?;
            return self.pool.take_for_turn().await;
        }
        let home = self.core.home()?;
        let id = Uuid::new_v4().to_string();
        let lines = history::conversation(&id, &home, context);
        home.keep_conversation(&id, &lines)
            .map_err(|error| BackendError::Init {
                message: format!("can't write the earlier messages: {error}"),
            })?;
        self.core.open(home, &Begin::Resumed { id, at: None }).await
    }
}

/// The process of one turn. Unless it is taken out, it ends in the background, also when the turn's stream is dropped.
struct Lease<'a> {
    core: &'a Core,
    connection: Option<Connection>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.core.leave(connection);
        }
    }
}

#[async_trait]
impl AgentBackend for ClaudeBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::streaming()
    }

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
            // Starting a process is no part of the turn's time; it has a limit of its own.
            yield Ok(BackendEvent::Paused);
            let process = tokio::select! {
                biased;
                () = request.cancel.cancelled() => Err(BackendError::Cancelled),
                process = self.process(&request.context) => process,
            };
            yield Ok(BackendEvent::Resumed);
            let mut lease = match process {
                Ok(connection) => Lease { core: &self.core, connection: Some(connection) },
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let earlier = !request.context.is_empty();
            let Some(connection) = lease.connection.as_mut() else { return };
            connection.serve(&request, Conversation::new());
            let mut end = None;
            {
                let mut steps = pin!(turn::run(&self.core, connection, request));
                while let Some(step) = steps.next().await {
                    match step {
                        Ok(Step::Event(event)) => yield Ok(event),
                        Ok(Step::Done(done)) => end = Some(Ok(*done)),
                        Err(error) => end = Some(Err(error)),
                    }
                }
            }
            match end {
                Some(Ok(done)) => {
                    if done.stands.is_some() && !earlier && let Some(connection) = lease.connection.take() {
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

    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError> {
        self.initialize().await?;
        let connection = self.pool.take_for_conversation().await?;
        let (core, pool) = (Arc::clone(&self.core), Arc::clone(&self.pool));
        Ok(Box::new(ClaudeSession::new(core, pool, connection)))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.pool.close().await;
        Ok(())
    }
}
