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

use crate::{ClaudeOptions, Reuse, connection::Connection, core::Core};

/// Names of the tool that starts sub-agents.
const AGENTS: [&str; 2] = ["Agent", "Task"];

/// Processes that are ready for a conversation of one turn.
pub(crate) struct Pool {
    core: Arc<Core>,
    reusable: bool,
    ready: Mutex<Ready>,
    changed: Notify,
    closed: AtomicBool,
}

#[derive(Default)]
struct Ready {
    idle: VecDeque<Connection>,
    /// On their way to being idle: cleared or started in the background.
    coming: usize,
    taken: usize,
}

impl Pool {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let refusal = reuse_refusal(&core.options);
        match refusal {
            _ if core.options.reuse == Reuse::Never => {}
            None => tracing::info!("test cases share Claude Code processes, cleared in between"),
            Some(reason) => {
                tracing::info!("every test case gets a Claude Code process of its own: {reason}");
            }
        }
        Self {
            core,
            reusable: refusal.is_none(),
            ready: Mutex::default(),
            changed: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Starts a first process, so that nobody waits for it later and what is wrong is known now.
    pub(crate) async fn warm(&self) -> Result<(), BackendError> {
        let connection = self.core.open_new().await?;
        self.ready().idle.push_back(connection);
        self.changed.notify_waiters();
        Ok(())
    }

    /// A process for one turn without history. Where processes are shared, each was cleared before, also a new one:
    /// then every case shows the model the same.
    pub(crate) async fn take_for_turn(self: &Arc<Self>) -> Result<Connection, BackendError> {
        let mut attempt = 1;
        loop {
            let mut connection = self.take().await?;
            if connection.is_gone() {
                tracing::debug!("a Claude Code process ended while nobody used it");
                continue;
            }
            if !self.reusable || connection.is_cleared() {
                return Ok(connection);
            }
            match connection.clear().await {
                Ok(()) => return Ok(connection),
                Err(error) => {
                    self.core.leave(connection);
                    if attempt >= self.core.options.limits.attempts {
                        return Err(BackendError::Init {
                            message: error.to_string(),
                        });
                    }
                    tracing::warn!(%error, attempt, "a Claude Code process cannot be used again");
                }
            }
            attempt += 1;
        }
    }

    /// A process for a conversation, as it was started.
    pub(crate) async fn take_for_conversation(&self) -> Result<Connection, BackendError> {
        let idle = {
            let mut ready = self.ready();
            ready.idle.retain_mut(|connection| !connection.is_gone());
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
                if idle.is_some() || ready.coming == 0 {
                    ready.taken += 1;
                    let spare =
                        !self.reusable && ready.taken > 1 && ready.idle.is_empty() && ready.coming == 0;
                    ready.coming += usize::from(spare);
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

    /// Takes back a process whose turn ended well.
    pub(crate) fn give_back(self: &Arc<Self>, mut connection: Connection) {
        if self.closed.load(Ordering::Relaxed) || !self.reusable {
            self.core.background(connection.close());
            return;
        }
        self.ready().coming += 1;
        let pool = Arc::clone(self);
        self.core.background(async move {
            let cleared = connection.clear().await;
            if let Err(error) = &cleared {
                tracing::debug!(%error, "a Claude Code process is not used again");
            }
            let surplus = pool.arrived(connection, cleared.is_ok());
            if let Some(connection) = surplus {
                connection.close().await;
            }
        });
    }

    /// The next case finds a process that has started while this one ran.
    fn start_spare(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        self.core.background(async move {
            let closing = pool.core.closing().clone();
            let spare = closing.run_until_cancelled(pool.core.open_new()).await;
            match spare {
                Some(Ok(connection)) => {
                    if let Some(connection) = pool.arrived(connection, true) {
                        connection.close().await;
                    }
                }
                // The next turn starts a process itself, and reports why it cannot.
                Some(Err(_)) | None => pool.absent(),
            }
        });
    }

    /// Takes in a process that was on its way, if it can be used; else gives it back to be closed.
    fn arrived(&self, connection: Connection, usable: bool) -> Option<Connection> {
        let surplus = {
            let mut ready = self.ready();
            ready.coming -= 1;
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

    /// A process that was on its way does not come.
    fn absent(&self) {
        self.ready().coming -= 1;
        self.changed.notify_waiters();
    }

    /// Ends every process that no turn uses, and waits for it. A running turn ends its own.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let idle: Vec<_> = self.ready().idle.drain(..).collect();
        join_all(idle.into_iter().map(Connection::close)).await;
        self.core.settle().await;
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of one conversation could reach the next through a shared process.
fn reuse_refusal(options: &ClaudeOptions) -> Option<&'static str> {
    let has = |names: &[&str]| {
        options
            .builtin_tools
            .iter()
            .any(|tool| names.contains(&tool.as_str()))
    };
    if options.reuse == Reuse::Never {
        Some("the options say so")
    } else if options.mcp_servers.document.is_some() {
        Some("its MCP servers may keep something")
    } else if has(ClaudeConfig::SIDE_EFFECT_TOOLS) {
        Some("its tools may change something")
    } else if has(&AGENTS) || !options.agents.is_empty() {
        Some("it starts sub-agents")
    } else if !options.setting_sources.is_empty() {
        Some("settings of the machine apply")
    } else {
        None
    }
}
