//! The state that all conversations of one backend share: options, limits on processes, stored conversations and
//! background work.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

use holodeck_backend_api::{BackendError, SessionHandle, ToolSpec};
use holodeck_model::{
    ClaudeModel, ClaudeModels, CliVersion, MAX_CLAUDE_SCHEMA_BYTES, ServerNeed, claude_model_id,
    mcp_tool_name,
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinHandle, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ClaudeOptions, McpServer,
    argv::ConversationStart,
    connection::{Connection, FailedServer, ListedServer, OpenError},
    home::Home,
    host::Host,
    stored::StoredConversation,
    wire,
};

/// The first version that accepts messages marked as literal.
const VERBATIM: CliVersion = CliVersion::new(2, 1, 248);
/// The maximum number of stored conversations of closed sessions. Each has a folder.
const MAX_STORED: usize = 16;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Notices that are not emitted yet, and all notices that were added after the start.
struct Notices(Vec<String>, HashSet<String>);

/// The tools of external servers that a process offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    AsAllowed,
    /// Includes tools that the agent may not use.
    TooMany,
}

/// The state that all conversations of a backend share.
pub(crate) struct Core {
    pub(crate) options: ClaudeOptions,
    host: Arc<Host>,
    starts: Semaphore,
    notices: Mutex<Notices>,
    /// Tools of external servers that are not offered.
    withheld: Mutex<Vec<String>>,
    sweep: Once,
    /// Conversations of closed sessions, the newest last.
    stored: Mutex<VecDeque<StoredConversation>>,
    /// Work that outlives its turn: ending processes and preparing new ones.
    background: TaskTracker,
    closing: CancellationToken,
}

impl Core {
    pub(crate) fn new(options: ClaudeOptions) -> Result<Self, BackendError> {
        if let Some(format) = &options.response_format {
            check_length(format.schema())?;
        }
        Ok(Self {
            host: Arc::new(Host::new(&options)?),
            starts: Semaphore::new(options.limits.starts.get()),
            notices: Mutex::new(Notices(options.notices.clone(), HashSet::new())),
            withheld: Mutex::default(),
            sweep: Once::new(),
            stored: Mutex::default(),
            background: TaskTracker::new(),
            closing: CancellationToken::new(),
            options,
        })
    }

    /// Starts a process for a new conversation and checks its servers.
    pub(crate) async fn open_new(&self) -> Result<Connection, BackendError> {
        self.open(self.create_home()?, &ConversationStart::new()).await
    }

    /// Starts a process that continues a stored conversation.
    pub(crate) async fn resume(&self, stored: &StoredConversation) -> Result<Connection, BackendError> {
        let start = ConversationStart::Resume {
            id: stored.position.session.clone(),
            at: stored.position.message.clone(),
        };
        self.open(Arc::clone(&stored.home), &start).await
    }

    pub(crate) fn create_home(&self) -> Result<Arc<Home>, BackendError> {
        match Home::create(&self.options) {
            Ok(home) => {
                self.sweep.call_once(|| home.sweep());
                Ok(Arc::new(home))
            }
            Err(error) => Err(init(&OpenError::Home(error))),
        }
    }

    /// Starts a process, with retries. They cannot repeat a message, because none was sent yet.
    pub(crate) async fn open(
        &self,
        home: Arc<Home>,
        start: &ConversationStart,
    ) -> Result<Connection, BackendError> {
        let Ok(_permit) = self.starts.acquire().await else {
            return Err(BackendError::Cancelled);
        };
        let mut connection = self.connect(&home, start).await?;
        if self.check_servers(&mut connection).await? == Offer::TooMany {
            // The tools to withhold are known only now, before the first message: start again without them.
            connection.close().await;
            let start = match start {
                ConversationStart::New { .. } => &ConversationStart::new(),
                resume @ ConversationStart::Resume { .. } => resume,
            };
            connection = self.connect(&home, start).await?;
            self.check_servers(&mut connection).await?;
        }
        Ok(connection)
    }

    async fn connect(&self, home: &Arc<Home>, start: &ConversationStart) -> Result<Connection, BackendError> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        let connection = loop {
            let withheld = self.withheld().clone();
            let home = Arc::clone(home);
            let opened = Connection::open(&self.options, &self.host, home, start, &withheld).await;
            match opened {
                Ok(connection) => break connection,
                Err(error) if error.is_transient() && attempt < self.options.limits.attempts => {
                    tracing::warn!(%error, attempt, "the Claude Code CLI did not start; retrying");
                }
                Err(error) => return Err(init(&error)),
            }
            attempt += 1;
            sleep(wait).await;
            wait *= 2;
        };
        tracing::debug!(pid = connection.id(), "a Claude Code process is ready");
        Ok(connection)
    }

    /// Runs `work` in the background; [`settle`](Self::settle) waits for it. Outside of a runtime, `work` is dropped.
    pub(crate) fn background(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        tokio::runtime::Handle::try_current().ok()?;
        Some(self.background.spawn(work))
    }

    /// Interrupts a process and lets it end in the background.
    pub(crate) fn abandon(&self, connection: Connection) -> Option<JoinHandle<()>> {
        connection.send(wire::control_request(
            "hd_leave",
            &json!({"subtype": "interrupt"}),
        ));
        self.background(connection.close())
    }

    /// Stores the conversation of a closed session. Drops the oldest one if there are too many.
    pub(crate) fn store(&self, conversation: StoredConversation) {
        let mut all = self.stored();
        all.push_back(conversation);
        if all.len() > MAX_STORED {
            all.pop_front();
        }
    }

    /// Takes the stored conversation of a handle, if it still ends with the handle's message.
    pub(crate) fn take_stored(&self, handle: &SessionHandle) -> Option<StoredConversation> {
        let mut all = self.stored();
        let index = all
            .iter()
            .position(|stored| stored.handle().as_ref() == Some(handle))?;
        all.remove(index)
    }

    /// The tools that the host offers to the CLI.
    pub(crate) fn own_tools(&self) -> &[ToolSpec] {
        self.options.tools.as_ref().map_or(&[], |tools| tools.specs())
    }

    /// Cancelled when the backend closes: no further process is needed.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Waits for all background work.
    pub(crate) async fn settle(&self) {
        self.closing.cancel();
        self.background.close();
        self.background.wait().await;
        self.stored().clear();
    }

    fn stored(&self) -> MutexGuard<'_, VecDeque<StoredConversation>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn withheld(&self) -> MutexGuard<'_, Vec<String>> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that each name in the agent's tool lists exists on the servers.
    fn check_tools(&self, listed: &[ListedServer]) -> Result<Offer, BackendError> {
        let mut names = self.options.names.clone();
        for server in listed {
            names.list(&server.name, server.tools.iter().map(String::as_str));
        }
        let unresolved = self.options.access.unresolved(&names);
        if !unresolved.is_empty() {
            let problems: Vec<_> = unresolved.iter().map(ToString::to_string).collect();
            return Err(BackendError::config(problems.join("\n")));
        }
        let tools = listed.iter().flat_map(|server| {
            let tools = server.tools.iter();
            tools.map(|tool| mcp_tool_name(&server.name, tool))
        });
        let mut seen = HashSet::new();
        if let Some(twice) = tools.clone().find(|tool| !seen.insert(tool.clone())) {
            return Err(BackendError::config(format!(
                "two tools of different MCP servers have the name `{twice}`"
            ))
            .with_hint("rename a server: `__` separates the name of a server from that of its tool"));
        }
        let mut withheld = self.withheld();
        let known = withheld.len();
        for tool in tools.filter(|tool| self.host.withholds_tool(tool)) {
            if !withheld.contains(&tool) {
                withheld.push(tool);
            }
        }
        Ok(if withheld.len() > known {
            Offer::TooMany
        } else {
            Offer::AsAllowed
        })
    }

    async fn check_servers(&self, connection: &mut Connection) -> Result<Offer, BackendError> {
        let servers = &self.options.mcp_servers.servers;
        if servers.is_empty() {
            return Ok(Offer::AsAllowed);
        }
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        let (failed, listed) = connection
            .wait_for_servers(&names, self.options.limits.mcp_start)
            .await
            .map_err(|error| init(&error))?;
        let mut fatal = Vec::new();
        for FailedServer { name, reason } in &failed {
            let problem = format!("MCP server `{name}` did not start: {reason}");
            let optional = |server: &McpServer| server.name == *name && server.need == ServerNeed::Optional;
            if servers.iter().any(optional) {
                self.add_notice(format!("{problem}; continuing without it"));
            } else {
                fatal.push(problem);
            }
        }
        if fatal.is_empty() {
            let offer = self.check_tools(&listed)?;
            for server in servers {
                self.check_offers_a_tool(server, &listed)?;
            }
            return Ok(offer);
        }
        Err(BackendError::init(fatal.join("; ")).with_hint(
            "run its `command` by hand, or set `required: false` on the tool to continue without it",
        ))
    }

    /// A server that is connected without any tool is of no use: its list failed, or its name is special for the CLI.
    fn check_offers_a_tool(&self, server: &McpServer, listed: &[ListedServer]) -> Result<(), BackendError> {
        let Some(found) = listed.iter().find(|found| found.name == server.name) else {
            // An old CLI lists no tools.
            return Ok(());
        };
        let is_offered = |tool: &String| !self.host.withholds_tool(&mcp_tool_name(&server.name, tool));
        if found.tools.iter().any(is_offered) {
            return Ok(());
        }
        let problem = format!(
            "MCP server `{}` is connected, but none of its tools is offered",
            server.name
        );
        if server.need == ServerNeed::Optional {
            self.add_notice(problem);
            return Ok(());
        }
        Err(BackendError::init(problem).with_hint(
            "check that it lists tools and that `allowed_tools` names one, or set `required: false` on the tool",
        ))
    }

    /// Checks that the CLI passes a message to the model unchanged.
    pub(crate) fn check_message(&self, message: &str) -> Result<(), BackendError> {
        let interpreted = message.trim_start().starts_with('/') || message.contains('@');
        match self.options.version {
            Some(version) if version < VERBATIM && interpreted => Err(BackendError::init(format!(
                "Claude Code {version} interprets `/` at the start of a message as a command and `@` as a file"
            ))
            .with_hint(format!("install Claude Code {VERBATIM} or later"))),
            _ => Ok(()),
        }
    }

    /// Reads the JSON of a structured answer by the agent's `response_format`; without one there is none.
    pub(crate) fn read_structured_output(&self, json: Option<&str>) -> Result<Option<Value>, String> {
        match (&self.options.response_format, json) {
            (None, _) => Ok(None),
            (Some(_), None) => Err("the agent gave no structured output".to_owned()),
            (Some(format), Some(json)) => format.read(json).map(Some).map_err(|problem| {
                format!("the structured output does not match `response_format`: {problem}")
            }),
        }
    }

    pub(crate) fn is_structured(&self) -> bool {
        self.options.response_format.is_some()
    }

    /// Takes the notices that were not emitted yet.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices().0)
    }

    /// Says once that the CLI uses another model than the one that was asked for.
    pub(crate) fn other_model(&self, used: Option<&str>) -> Option<String> {
        let (asked, used) = (self.options.model.as_deref()?, used?);
        let models = ClaudeModels::embedded();
        let id = |name| {
            models
                .find(name)
                .map_or_else(|| claude_model_id(name), ClaudeModel::id)
        };
        if models.is_alias(asked) || id(asked) == id(used) {
            return None;
        }
        let message = format!("Claude Code asks `{used}` in place of `{asked}`");
        self.notices().1.insert(message.clone()).then_some(message)
    }

    /// Adds a notice for the next turn, unless it was added before.
    fn add_notice(&self, notice: String) {
        let mut notices = self.notices();
        if notices.1.insert(notice.clone()) {
            notices.0.push(notice);
        }
    }

    fn notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_length(schema: &Value) -> Result<(), BackendError> {
    if schema.to_string().len() <= MAX_CLAUDE_SCHEMA_BYTES {
        return Ok(());
    }
    Err(BackendError::init(format!(
        "`response_format` is longer than {} KiB, the limit for the Claude Code CLI",
        MAX_CLAUDE_SCHEMA_BYTES / 1024
    )))
}

fn init(error: &OpenError) -> BackendError {
    BackendError::init(error.to_string())
}
