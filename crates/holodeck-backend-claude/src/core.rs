use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

use holodeck_backend_api::BackendError;
use holodeck_mcp_bridge::ServerNeed;
use holodeck_validators::CliVersion;
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinHandle, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{
    ClaudeOptions, McpServer,
    argv::Begin,
    connection::{Connection, FailedServer, OpenError},
    home::Home,
    host::Host,
    wire,
};

/// From here on a message can be marked as being meant literally.
const VERBATIM: CliVersion = CliVersion::new(2, 1, 248);
/// Longer arguments can't be given to a program.
const LONGEST_SCHEMA: usize = 120 * 1024;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Notices to be said, and those that were.
struct Notices(Vec<String>, HashSet<String>);

/// What all conversations of a backend share.
pub(crate) struct Core {
    pub(crate) options: ClaudeOptions,
    host: Arc<Host>,
    format: Option<Validator>,
    starts: Semaphore,
    notices: Mutex<Notices>,
    swept: Once,
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
            swept: Once::new(),
            background: TaskTracker::new(),
            closing: CancellationToken::new(),
            format,
            options,
        })
    }

    /// A process for a new conversation, checked to be whole.
    pub(crate) async fn open_new(&self) -> Result<Connection, BackendError> {
        let begin = Begin::Fresh {
            id: Uuid::new_v4().to_string(),
        };
        self.open(self.home()?, &begin).await
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
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        let mut connection = loop {
            match Connection::open(&self.options, &self.host, Arc::clone(&home), begin).await {
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
        self.check_servers(&mut connection).await?;
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

    /// Fires when the backend is closed: no further process needs to be made ready.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Waits until no process is left of what ran beside the turns.
    pub(crate) async fn settle(&self) {
        self.closing.cancel();
        self.background.close();
        self.background.wait().await;
    }

    async fn check_servers(&self, connection: &mut Connection) -> Result<(), BackendError> {
        let servers = &self.options.mcp_servers.servers;
        if servers.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        let failed = connection
            .failed_servers(&names, self.options.limits.mcp_start)
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
            return Ok(());
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
