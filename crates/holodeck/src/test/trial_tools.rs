//! Gives each trial of a test MCP servers of its own, so that no trial sees the state that another one left behind.
//!
//! Must start none before a case needs them. Servers with `share: trials` are the same in all trials.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures::future::join_all;
use holodeck_backend_api::{
    BackendError, RequestPlace, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_model::McpTransport;
use holodeck_runner::TrialResources;
use holodeck_tools::Toolbox;
use tokio::sync::OnceCell;

use crate::agent::mcp::{McpServers, McpSetup};

/// The tools of an agent in a test: each trial calls its own servers.
pub(crate) struct TrialTools {
    /// The tools of the first trial.
    first: Toolbox,
    /// The tools of no server.
    others: Toolbox,
    /// The servers that all trials use.
    shared: McpServers,
    /// The servers that each trial has for itself.
    own: McpSetup,
    later: Mutex<HashMap<u32, Arc<OnceCell<TrialSet>>>>,
}

/// The tools of a trial after the first.
struct TrialSet {
    tools: Toolbox,
    servers: McpServers,
}

impl TrialTools {
    /// The tools of a test whose first trial has `servers` and `others`; `None` if no trial needs servers of its own.
    pub(crate) fn new(setup: McpSetup, servers: &McpServers, others: Toolbox) -> Option<Self> {
        let mut own = setup;
        // What the first trial has, the others need; what it lacks, they lack.
        let connected = servers.names();
        own.retain_needed(|server| server.share.is_none() && connected.contains(&server.name));
        own.configs().next()?;
        let mut first = others.clone();
        servers.add_to(&mut first);
        let shared = servers.filtered(|name| own.configs().all(|server| server.name != name));
        Some(Self {
            first,
            others,
            shared,
            own,
            later: Mutex::default(),
        })
    }

    /// The number of processes that a trial starts.
    pub(crate) fn processes(&self) -> usize {
        let servers = self.own.configs();
        servers
            .filter(|server| server.transport == McpTransport::Stdio)
            .count()
    }

    /// Ends the servers of all trials after the first.
    pub(crate) async fn close(&self) {
        let sets: Vec<_> = self.later().drain().map(|(_, set)| set).collect();
        let servers = sets.iter().filter_map(|set| set.get()).map(|set| &set.servers);
        join_all(servers.map(McpServers::close)).await;
    }

    async fn connect(&self) -> Result<TrialSet, BackendError> {
        let servers = self.own.connect().await;
        let servers = servers.map_err(|error| BackendError::init(error.to_string()))?;
        let mut tools = self.others.clone();
        self.shared.add_to(&mut tools);
        servers.add_to(&mut tools);
        Ok(TrialSet { tools, servers })
    }

    /// The tools of a trial that has begun.
    fn of_trial(&self, trial: u32) -> Option<Arc<OnceCell<TrialSet>>> {
        self.later().get(&trial).cloned()
    }

    fn later(&self) -> MutexGuard<'_, HashMap<u32, Arc<OnceCell<TrialSet>>>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl TrialResources for TrialTools {
    async fn begin(&self, trial: u32) -> Result<(), BackendError> {
        if trial == 0 {
            return Ok(());
        }
        let set = Arc::clone(self.later().entry(trial).or_default());
        set.get_or_try_init(|| self.connect()).await?;
        Ok(())
    }

    async fn end(&self, trial: u32) {
        // Listed until it is closed: if this is aborted, `close` finds it.
        let Some(set) = self.of_trial(trial) else { return };
        if let Some(set) = set.get() {
            set.servers.close().await;
        }
        self.later().remove(&trial);
    }
}

#[async_trait]
impl ToolHost for TrialTools {
    fn specs(&self) -> &[ToolSpec] {
        self.first.specs()
    }

    fn current(&self) -> Cow<'_, [ToolSpec]> {
        self.first.current()
    }

    fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
        if request.trial == 0 {
            return self.first.current();
        }
        let set = self.of_trial(request.trial);
        let set = set.as_ref().and_then(|set| set.get());
        match set.map(|set| set.tools.current()) {
            Some(tools) if *tools != *self.specs() => Cow::Owned(tools.into_owned()),
            _ => Cow::Borrowed(self.specs()),
        }
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if cx.trial == 0 {
            return self.first.call(call, cx).await;
        }
        let set = self.of_trial(cx.trial);
        match set.as_ref().and_then(|set| set.get()) {
            Some(set) => set.tools.call(call, cx).await,
            None => Err(ToolError::Unavailable {
                name: call.name.clone(),
                reason: "the MCP servers of this trial are not connected".to_owned(),
            }),
        }
    }
}
