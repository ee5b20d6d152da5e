use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, Conversation, EventStream, SessionControl, SessionCore,
    TurnRequest,
};
use tokio::task::JoinHandle;

use crate::{
    argv::Begin,
    connection::Connection,
    core::Core,
    home::Home,
    pool::Pool,
    turn::{self, Stands, Step},
};

/// A conversation with one live process. When the process is gone, or what it heard is to be forgotten, the next turn
/// goes on from the last good one in a new process.
pub(crate) struct ClaudeSession {
    core: Arc<Core>,
    pool: Arc<Pool>,
    link: Link,
    conversation: Conversation,
    session: SessionCore,
}

/// The process of a session, and what is needed to go on without it.
#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    kept: Option<Kept>,
    leaving: Option<JoinHandle<()>>,
}

/// Where a conversation stands, and the folder it is kept in.
struct Kept {
    stands: Stands,
    home: Arc<Home>,
}

impl ClaudeSession {
    pub(crate) fn new(core: Arc<Core>, pool: Arc<Pool>, connection: Connection) -> Self {
        Self {
            link: Link {
                connection: Some(connection),
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
                let starts = link.connection.is_none();
                if starts {
                    yield Ok(BackendEvent::Paused);
                }
                let mut busy = match link.busy(core, pool).await {
                    Ok(busy) => {
                        if starts {
                            yield Ok(BackendEvent::Resumed);
                        }
                        busy
                    }
                    Err(error) => {
                        yield Err(error);
                        return;
                    }
                };
                let Some(connection) = busy.connection.as_mut() else { return };
                connection.serve(&request, conversation);
                let mut end = None;
                {
                    let mut steps = pin!(turn::run(core, connection, request));
                    while let Some(step) = steps.next().await {
                        match step {
                            Ok(Step::Event(event)) => yield Ok(event),
                            Ok(Step::Done(done)) => end = Some(Ok(*done)),
                            Err(error) => end = Some(Err(error)),
                        }
                    }
                }
                // What the turn did to the conversation is settled before its end is told.
                match end {
                    Some(Ok(done)) => {
                        busy.over(done.stands);
                        yield Ok(BackendEvent::End(Box::new(done.result)));
                    }
                    Some(Err(error)) => {
                        drop(busy);
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

    async fn close(&mut self) -> Result<(), BackendError> {
        self.session.close();
        let link = std::mem::take(&mut self.link);
        if let Some(connection) = link.connection {
            connection.close().await;
        }
        if let Some(leaving) = link.leaving {
            let _ = leaving.await;
        }
        Ok(())
    }
}

impl Link {
    /// The live process, or a new one that knows what was said up to the last good turn.
    async fn busy<'a>(&'a mut self, core: &'a Core, pool: &Arc<Pool>) -> Result<Busy<'a>, BackendError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reopen(core, pool).await?,
        };
        Ok(Busy {
            link: self,
            core,
            connection: Some(connection),
            // The CLI counts what its process has cost; the limit is one message's.
            one_turn_each: core.options.max_budget_usd.is_some(),
        })
    }

    async fn reopen(&mut self, core: &Core, pool: &Arc<Pool>) -> Result<Connection, BackendError> {
        // Only a process that has ended has written everything down.
        if let Some(leaving) = self.leaving.take() {
            let _ = leaving.await;
        }
        let Some(Kept { stands, home }) = &self.kept else {
            return pool.take_for_conversation().await;
        };
        tracing::debug!(session = %stands.session, "going on with a conversation in a new process");
        let begin = Begin::Resumed {
            id: stands.session.clone(),
            at: stands.message.clone(),
        };
        core.open(Arc::clone(home), &begin).await
    }
}

/// A process during a turn. Dropped in the middle of it, the process is left.
struct Busy<'a> {
    link: &'a mut Link,
    core: &'a Core,
    connection: Option<Connection>,
    one_turn_each: bool,
}

impl Busy<'_> {
    fn over(mut self, stands: Option<Stands>) {
        if let (Some(stands), Some(connection)) = (stands, self.connection.take()) {
            self.link.kept = Some(Kept {
                stands,
                home: connection.home(),
            });
            if self.one_turn_each {
                self.link.leaving = self.core.leave(connection);
            } else {
                self.link.connection = Some(connection);
            }
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.link.leaving = self.core.leave(connection);
        }
    }
}
