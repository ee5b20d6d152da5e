use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

use holodeck_backend_api::{BackendError, SessionHandle, ToolSpec};
use holodeck_mcp_bridge::ServerNeed;
use holodeck_model::mcp_tool_name;
use holodeck_validators::CliVersion;
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinHandle, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ClaudeOptions, McpServer,
    argv::Begin,
    connection::{Connection, FailedServer, ListedServer, OpenError},
    home::Home,
    host::Host,
    session::Kept,
    wire,
};

/// From here on a message can be marked as being meant literally.
const VERBATIM: CliVersion = CliVersion::new(2, 1, 248);
/// Longer arguments can't be given to a program.
const LONGEST_SCHEMA: usize = 120 * 1024;
/// Conversations of closed sessions that are kept, each with a folder of its own.
const MOST_KEPT: usize = 16;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Notices to be said, and those that were.
struct Notices(Vec<String>, HashSet<String>);

/// The tools of external servers that a process offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    AsAllowed,
    /// Some that the agent may not use.
    TooMuch,
}

/// What all conversations of a backend share.
pub(crate) struct Core {
    pub(crate) options: ClaudeOptions,
    host: Arc<Host>,
    format: Option<Validator>,
    starts: Semaphore,
    notices: Mutex<Notices>,
    /// Tools of external servers that are not offered.
    withheld: Mutex<Vec<String>>,
    swept: Once,
    /// Conversations of sessions that were closed, the newest last.
    kept: Mutex<VecDeque<Kept>>,
    /// What outlives the turn it belongs to: processes that end or are made ready.
    background: TaskTracker,
    closing: CancellationToken,
}

impl Core {
    pub(crate) fn new(options: ClaudeOptions) -> Result<Self, BackendError> {
        let format = options.response_format.as_ref().map(validator).transpose()?;
        Ok(Self {
            host: Arc::new(Host::new(&options)?),
            starts: Semaphore::new(options.limits.starts.get()),
            notices: Mutex::new(Notices(options.notices.clone(), HashSet::new())),
            withheld: Mutex::default(),
            swept: Once::new(),
            kept: Mutex::default(),
            background: TaskTracker::new(),
            closing: CancellationToken::new(),
            format,
            options,
        })
    }

    /// A process for a new conversation, checked to be whole.
    pub(crate) async fn open_new(&self) -> Result<Connection, BackendError> {
        self.open(self.home()?, &Begin::fresh()).await
    }

    pub(crate) fn home(&self) -> Result<Arc<Home>, BackendError> {
        match Home::create(&self.options) {
            Ok(home) => {
                self.swept.call_once(|| home.sweep());
                Ok(Arc::new(home))
            }
            Err(error) => Err(init(&OpenError::Home(error))),
        }
    }

    /// Starts a process, more than once if need be. Nothing was said yet, so nothing is said twice.
    pub(crate) async fn open(&self, home: Arc<Home>, begin: &Begin) -> Result<Connection, BackendError> {
        let Ok(_place) = self.starts.acquire().await else {
            return Err(BackendError::Cancelled);
        };
        let mut connection = self.connect(&home, begin).await?;
        if self.check_servers(&mut connection).await? == Offer::TooMuch {
            // What is not to be offered is known only now. Nothing was asked yet.
            connection.close().await;
            let begin = match begin {
                Begin::Fresh { .. } => &Begin::fresh(),
                resumed @ Begin::Resumed { .. } => resumed,
            };
            connection = self.connect(&home, begin).await?;
            self.check_servers(&mut connection).await?;
        }
        Ok(connection)
    }

    async fn connect(&self, home: &Arc<Home>, begin: &Begin) -> Result<Connection, BackendError> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        let connection = loop {
            let withheld = self.withheld().clone();
            let home = Arc::clone(home);
            let opened = Connection::open(&self.options, &self.host, home, begin, &withheld).await;
            match opened {
                Ok(connection) => break connection,
                Err(error) if error.is_passing() && attempt < self.options.limits.attempts => {
                    tracing::warn!(%error, attempt, "the Claude Code CLI did not start; trying again");
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

    /// Runs `work` beside the turns; [`settle`](Self::settle) waits for it. Outside of a runtime nothing can run, and
    /// what `work` holds is dropped.
    pub(crate) fn background(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        tokio::runtime::Handle::try_current().ok()?;
        Some(self.background.spawn(work))
    }

    /// Lets a process end by itself, whatever it does at the moment.
    pub(crate) fn leave(&self, connection: Connection) -> Option<JoinHandle<()>> {
        connection.send(wire::control_request(
            "hd_leave",
            &json!({"subtype": "interrupt"}),
        ));
        self.background(connection.close())
    }

    /// Keeps the conversation of a session that was closed, in place of the oldest one.
    pub(crate) fn keep(&self, kept: Kept) {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(kept);
        if all.len() > MOST_KEPT {
            all.pop_front();
        }
    }

    /// The conversation of a handle, if it is kept and ends where the handle says.
    pub(crate) fn take_kept(&self, handle: &SessionHandle) -> Option<Kept> {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all
            .iter()
            .position(|kept| kept.handle().as_ref() == Some(handle))?;
        all.remove(place)
    }

    /// Tools that this process offers to the CLI.
    pub(crate) fn own_tools(&self) -> &[ToolSpec] {
        self.options.tools.as_ref().map_or(&[], |tools| tools.specs())
    }

    /// Fires when the backend is closed: no further process needs to be made ready.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Waits until no process is left of what ran beside the turns.
    pub(crate) async fn settle(&self) {
        self.closing.cancel();
        self.background.close();
        self.background.wait().await;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn withheld(&self) -> MutexGuard<'_, Vec<String>> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the names of the lists against the tools that the servers have.
    fn check_tools(&self, listed: &[ListedServer]) -> Result<Offer, BackendError> {
        let mut names = self.options.names.clone();
        for server in listed {
            names.list(&server.name, server.tools.iter().map(String::as_str));
        }
        let unresolved = self.options.access.unresolved(&names);
        if !unresolved.is_empty() {
            let problems: Vec<_> = unresolved.iter().map(ToString::to_string).collect();
            return Err(BackendError::Config {
                message: problems.join("\n"),
            });
        }
        let tools = listed.iter().flat_map(|server| {
            let tools = server.tools.iter();
            tools.map(|tool| mcp_tool_name(&server.name, tool))
        });
        let mut withheld = self.withheld();
        let known = withheld.len();
        for tool in tools.filter(|tool| self.host.withholds_tool(tool)) {
            if !withheld.contains(&tool) {
                withheld.push(tool);
            }
        }
        Ok(if withheld.len() > known {
            Offer::TooMuch
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
            .servers(&names, self.options.limits.mcp_start)
            .await
            .map_err(|error| init(&error))?;
        let mut fatal = Vec::new();
        for FailedServer { name, reason } in &failed {
            let told = format!("MCP server `{name}` did not start: {reason}");
            let optional = |server: &McpServer| server.name == *name && server.need == ServerNeed::Optional;
            if servers.iter().any(optional) {
                self.late_notice(format!("{told}; going on without it"));
            } else {
                fatal.push(told);
            }
        }
        if fatal.is_empty() {
            return self.check_tools(&listed);
        }
        Err(BackendError::Init {
            message: format!(
                "{}\n\nhint: run its `command` by hand, or set `required: false` on the tool to go on without it",
                fatal.join("; ")
            ),
        })
    }

    /// Whether a message reaches the model as it is.
    pub(crate) fn check_message(&self, message: &str) -> Result<(), BackendError> {
        let interpreted = message.trim_start().starts_with('/') || message.contains('@');
        match self.options.version {
            Some(version) if version < VERBATIM && interpreted => Err(BackendError::Init {
                message: format!(
                    "Claude Code {version} would take `/` at the beginning or `@` in a message as a command or a \
                     file\n\nhint: install Claude Code {VERBATIM} or later"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// What is wrong with an answer that should have the agent's form.
    pub(crate) fn check_form(&self, value: Option<&Value>) -> Result<(), String> {
        match (&self.format, value) {
            (None, _) => Ok(()),
            (Some(_), None) => Err("the agent gave no structured output".to_owned()),
            (Some(format), Some(value)) => format.validate(value).map_err(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() {
                    String::new()
                } else {
                    format!(" at `{place}`")
                };
                format!("the structured output does not satisfy `response_format`: {error}{place}")
            }),
        }
    }

    pub(crate) fn structured(&self) -> bool {
        self.format.is_some()
    }

    /// Notices that were not said before.
    pub(crate) fn opening_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices().0)
    }

    /// Something to be said with the next turn, once.
    fn late_notice(&self, notice: String) {
        let mut notices = self.notices();
        if notices.1.insert(notice.clone()) {
            notices.0.push(notice);
        }
    }

    fn notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn validator(schema: &Value) -> Result<Validator, BackendError> {
    let problem = |message: String| BackendError::Init { message };
    if schema.to_string().len() > LONGEST_SCHEMA {
        return Err(problem(format!(
            "`response_format` is longer than {} KiB, which the Claude Code CLI can't be given",
            LONGEST_SCHEMA / 1024
        )));
    }
    jsonschema::validator_for(schema)
        .map_err(|error| problem(format!("`response_format` is not a usable JSON Schema: {error}")))
}

fn init(error: &OpenError) -> BackendError {
    BackendError::Init {
        message: error.to_string(),
    }
}
