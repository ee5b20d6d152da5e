//! Keeps processes ready for the next turn, and decides which may be used again.
//!
//! A process is shared only if no state of one conversation can reach the next.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::join_all;
use holodeck_backend_api::BackendError;
use holodeck_model::ClaudeConfig;
use tokio::sync::Notify;

use crate::{
    ClaudeOptions, Reuse,
    connection::{ClearError, Connection},
    core::Core,
};

/// The names of the tool that starts sub-agents.
const AGENT_TOOLS: [&str; 2] = ["Agent", "Task"];

/// Processes that are ready for a conversation of one turn.
pub(crate) struct Pool {
    core: Arc<Core>,
    reusable: AtomicBool,
    ready: Mutex<Ready>,
    changed: Notify,
    closed: AtomicBool,
}

#[derive(Default)]
struct Ready {
    idle: VecDeque<Connection>,
    /// Processes that are being cleared or started in the background.
    pending: usize,
    /// How many processes were taken so far.
    uses: usize,
}

impl Pool {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let refusal = reuse_refusal(&core.options);
        match refusal {
            _ if core.options.reuse == Reuse::Never => {}
            None => tracing::info!("test cases share Claude Code processes, which are cleared between cases"),
            Some(reason) => {
                tracing::info!("every test case gets its own Claude Code process: {reason}");
            }
        }
        Self {
            core,
            reusable: refusal.is_none().into(),
            ready: Mutex::default(),
            changed: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Starts a first process, so that the first turn does not wait and errors are reported early.
    pub(crate) async fn warm(&self) -> Result<(), BackendError> {
        let connection = self.core.open_new().await?;
        self.ready().idle.push_back(connection);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Takes a process for one turn without history. A shared process is always cleared, also a new one, so that every
    /// case shows the model the same.
    pub(crate) async fn take_for_turn(self: &Arc<Self>) -> Result<Connection, BackendError> {
        let mut attempt = 1;
        loop {
            let mut connection = self.take().await?;
            if connection.is_closed() {
                tracing::debug!("an idle Claude Code process exited");
                continue;
            }
            if !self.is_reusable() || connection.is_cleared() {
                return Ok(connection);
            }
            match connection.clear().await {
                Ok(()) => return Ok(connection),
                Err(error @ ClearError::Unavailable) => {
                    self.core.abandon(connection);
                    if self.reusable.swap(false, Ordering::Relaxed) {
                        tracing::info!("every test case gets its own Claude Code process: {error}");
                    }
                    continue;
                }
                Err(error) => {
                    self.core.abandon(connection);
                    if attempt >= self.core.options.limits.attempts {
                        return Err(BackendError::init(error.to_string()));
                    }
                    tracing::warn!(%error, attempt, "cannot clear a Claude Code process");
                }
            }
            attempt += 1;
        }
    }

    /// Takes a process for a conversation: one that was never cleared.
    pub(crate) async fn take_for_conversation(&self) -> Result<Connection, BackendError> {
        let idle = {
            let mut ready = self.ready();
            ready.idle.retain_mut(|connection| !connection.is_closed());
            let new = ready.idle.iter().position(|connection| !connection.is_cleared());
            new.and_then(|new| ready.idle.remove(new))
        };
        match idle {
            Some(connection) => Ok(connection),
            None => self.core.open_new().await,
        }
    }

    async fn take(self: &Arc<Self>) -> Result<Connection, BackendError> {
        loop {
            let changed = self.changed.notified();
            {
                let mut ready = self.ready();
                let idle = ready.idle.pop_front();
                if idle.is_some() || ready.pending == 0 {
                    ready.uses += 1;
                    let spare =
                        !self.is_reusable() && ready.uses > 1 && ready.idle.is_empty() && ready.pending == 0;
                    ready.pending += usize::from(spare);
                    drop(ready);
                    if spare {
                        self.start_spare();
                    }
                    match idle {
                        Some(connection) => return Ok(connection),
                        None => break,
                    }
                }
            }
            changed.await;
        }
        self.core.open_new().await
    }

    /// Returns a process after a successful turn.
    pub(crate) fn give_back(self: &Arc<Self>, mut connection: Connection) {
        if self.closed.load(Ordering::Relaxed) || !self.is_reusable() {
            self.core.background(connection.close());
            return;
        }
        self.ready().pending += 1;
        let pool = Arc::clone(self);
        self.core.background(async move {
            let cleared = connection.clear().await;
            if let Err(error) = &cleared {
                tracing::debug!(%error, "cannot reuse a Claude Code process");
            }
            let surplus = pool.add(connection, cleared.is_ok());
            if let Some(connection) = surplus {
                connection.close().await;
            }
        });
    }

    /// Starts a process for the next case while this one runs.
    fn start_spare(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        self.core.background(async move {
            let closing = pool.core.closing().clone();
            let spare = closing.run_until_cancelled(pool.core.open_new()).await;
            match spare {
                Some(Ok(connection)) => {
                    if let Some(connection) = pool.add(connection, true) {
                        connection.close().await;
                    }
                }
                // The next turn starts a process itself and reports errors.
                Some(Err(_)) | None => pool.drop_pending(),
            }
        });
    }

    /// Adds a pending process to the idle ones, or returns it if it has to be closed.
    fn add(&self, connection: Connection, usable: bool) -> Option<Connection> {
        let surplus = {
            let mut ready = self.ready();
            ready.pending -= 1;
            if usable && !self.closed.load(Ordering::Relaxed) {
                ready.idle.push_back(connection);
                None
            } else {
                Some(connection)
            }
        };
        self.changed.notify_waiters();
        surplus
    }

    /// Gives up a pending process.
    fn drop_pending(&self) {
        self.ready().pending -= 1;
        self.changed.notify_waiters();
    }

    /// Ends every idle process and waits for its end. A running turn ends its own process.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let idle: Vec<_> = self.ready().idle.drain(..).collect();
        join_all(idle.into_iter().map(Connection::close)).await;
        self.core.settle().await;
    }

    fn is_reusable(&self) -> bool {
        self.reusable.load(Ordering::Relaxed)
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why state of one conversation could reach the next through a shared process.
fn reuse_refusal(options: &ClaudeOptions) -> Option<&'static str> {
    let has = |matches: &dyn Fn(&str) -> bool| options.builtin_tools.iter().any(|tool| matches(tool));
    if options.reuse == Reuse::Never {
        Some("sharing processes is turned off")
    } else if options.mcp_servers.document.is_some() {
        Some("its MCP servers may keep state")
    } else if has(&ClaudeConfig::may_change_something) {
        Some("its tools may have side effects")
    } else if has(&|tool| AGENT_TOOLS.contains(&tool)) || !options.agents.is_empty() {
        Some("it starts sub-agents")
    } else if !options.setting_sources.is_empty() {
        Some("it uses settings of the machine")
    } else {
        None
    }
}
