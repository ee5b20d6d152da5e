//! A conversation that survives the end of its process: the next turn continues after the last successful one.

use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, Conversation, EventStream, SessionControl, SessionCore,
    SessionHandle, TurnRequest,
};
use tokio::task::JoinHandle;

use crate::{
    connection::Connection,
    core::Core,
    pool::Pool,
    stored::{Position, StoredConversation},
    turn::{self, OnCancel, Step},
};

/// A conversation in one live process. If the process exits or a turn fails, the next turn continues in a new process,
/// after the last successful turn.
pub(crate) struct ClaudeSession {
    core: Arc<Core>,
    pool: Arc<Pool>,
    link: Link,
    conversation: Conversation,
    session: SessionCore,
}

/// The process of a session, and what a new process needs to continue.
#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    stored: Option<StoredConversation>,
    /// The end of a process that is no longer used.
    closing: Option<JoinHandle<()>>,
}

impl ClaudeSession {
    pub(crate) fn new(
        core: Arc<Core>,
        pool: Arc<Pool>,
        connection: Connection,
        stored: Option<StoredConversation>,
    ) -> Self {
        Self {
            link: Link {
                connection: Some(connection),
                stored,
                ..Link::default()
            },
            conversation: Conversation::new(),
            session: SessionCore::new(),
            core,
            pool,
        }
    }
}

#[async_trait]
impl AgentSession for ClaudeSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let (core, pool, link) = (&self.core, &self.pool, &mut self.link);
        let conversation = self.conversation.clone();
        self.session.turn(request, |request| {
            Box::pin(stream! {
                if let Err(error) = core.check_message(&request.message) {
                    yield Err(error);
                    return;
                }
                if request.cancel.is_cancelled() {
                    yield Err(BackendError::Cancelled);
                    return;
                }
                let (active, end, interrupted) = loop {
                    let needs_start = !link.is_live();
                    if needs_start {
                        yield Ok(BackendEvent::Paused);
                    }
                    let mut active = match link.begin_turn(core, pool).await {
                        Ok(active) => {
                            if needs_start {
                                yield Ok(BackendEvent::Resumed);
                            }
                            active
                        }
                        Err(error) => {
                            yield Err(error);
                            return;
                        }
                    };
                    let Some(connection) = active.connection.as_mut() else { return };
                    connection.set_caller(&request, conversation.clone());
                    let (mut end, mut interrupted, mut has_begun) = (None, None, true);
                    {
                        let request = request.clone();
                        let mut steps = pin!(turn::run(core, connection, request, OnCancel::Await));
                        while let Some(step) = steps.next().await {
                            match step {
                                Ok(Step::Event(event)) => yield Ok(event),
                                Ok(Step::Done(done)) => end = Some(Ok(*done)),
                                Ok(Step::Interrupted(position)) => interrupted = position,
                                Ok(Step::NeverBegan) => has_begun = false,
                                Err(error) => end = Some(Err(error)),
                            }
                        }
                    }
                    // The idle process was about to exit, and no model was asked: the message goes to another one.
                    if has_begun || needs_start || request.cancel.is_cancelled() {
                        break (active, end, interrupted);
                    }
                    active.finish(None);
                };
                // Update the conversation before the end of the turn is emitted.
                match end {
                    Some(Ok(done)) => {
                        active.finish(done.position);
                        yield Ok(BackendEvent::End(Box::new(done.result)));
                    }
                    Some(Err(error)) => {
                        active.finish(interrupted);
                        yield Err(error);
                    }
                    None => {}
                }
            })
        })
    }

    fn control(&self) -> SessionControl {
        self.session.control()
    }

    fn handle(&self) -> Option<SessionHandle> {
        self.link.stored.as_ref().and_then(StoredConversation::handle)
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.session.close();
        let mut link = std::mem::take(&mut self.link);
        if let Some(connection) = link.connection {
            connection.close().await;
        }
        if let Some(closing) = link.closing {
            let _ = closing.await;
        }
        // The CLI has written the whole conversation only after it exited.
        if let Some(stored) = link.stored.take() {
            self.core.store(stored);
        }
        Ok(())
    }
}

impl Link {
    /// Whether a process runs for the next turn. It may have exited since the last one.
    fn is_live(&mut self) -> bool {
        self.connection
            .as_mut()
            .is_some_and(|connection| !connection.is_closed())
    }

    /// The process, if it runs. One that has exited is put away.
    fn take_live(&mut self, core: &Core) -> Option<Connection> {
        let is_live = self.is_live();
        let connection = self.connection.take()?;
        if is_live {
            return Some(connection);
        }
        tracing::debug!("the idle Claude Code process of a conversation exited");
        self.closing = core.background(connection.close());
        None
    }

    /// Takes the live process, or starts one that continues after the last successful turn.
    async fn begin_turn<'a>(
        &'a mut self,
        core: &'a Core,
        pool: &Arc<Pool>,
    ) -> Result<ActiveTurn<'a>, BackendError> {
        let connection = match self.take_live(core) {
            Some(connection) => connection,
            None => self.reopen(core, pool).await?,
        };
        Ok(ActiveTurn {
            link: self,
            core,
            connection: Some(connection),
            // The CLI sums up the cost of its process, but the limit applies to one message.
            single_use: core.options.max_budget_usd.is_some(),
        })
    }

    async fn reopen(&mut self, core: &Core, pool: &Arc<Pool>) -> Result<Connection, BackendError> {
        // The CLI has written the whole conversation only after it exited.
        if let Some(closing) = self.closing.take() {
            let _ = closing.await;
        }
        let Some(stored) = &self.stored else {
            return pool.take_for_conversation().await;
        };
        tracing::debug!(session = %stored.position.session, "continuing a conversation in a new process");
        core.resume(stored).await
    }
}

/// A process during a turn. If dropped before the end of the turn, it ends the process in the background.
struct ActiveTurn<'a> {
    link: &'a mut Link,
    core: &'a Core,
    connection: Option<Connection>,
    /// Whether the process runs only this turn.
    single_use: bool,
}

impl ActiveTurn<'_> {
    /// Without a position, the process cannot be used again.
    fn finish(mut self, position: Option<Position>) {
        if let (Some(position), Some(connection)) = (position, self.connection.take()) {
            self.link.stored = Some(StoredConversation {
                position,
                home: connection.home(),
            });
            if self.single_use {
                self.link.closing = self.core.abandon(connection);
            } else {
                self.link.connection = Some(connection);
            }
        }
    }
}

impl Drop for ActiveTurn<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.link.closing = self.core.abandon(connection);
        }
    }
}
