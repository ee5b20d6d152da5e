use std::{future::pending, sync::Arc, time::Duration};

use holodeck_backend_api::{Approval, ApprovalAsk, ApprovalDecision, Conversation, TurnRequest};
use holodeck_process::{ChildEnv, ChildProcess, ProcessError, ProcessSpec};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    ClaudeOptions,
    argv::{Begin, argv},
    control::{ControlError, Outgoing, Pending},
    framing::FramingError,
    home::Home,
    host::{Caller, Host},
    wire::Frame,
};

mod clearing;
mod pipes;

use pipes::{read, write};

/// Frames that may wait for the turn that reads them; then the CLI waits.
const WAITING: usize = 1024;
/// Output of a program that has ended, unless somebody else still holds the pipe.
const REST: Duration = Duration::from_secs(1);
/// Time between SIGTERM and SIGKILL, once the CLI has not ended by itself.
const TERMINATE: Duration = Duration::from_secs(1);
/// Lines of stderr that are shown of a program that died.
const LAST_LINES: usize = 5;

/// A running CLI that has answered the handshake. Dropping it kills its process group.
pub(crate) struct Connection {
    process: ChildProcess,
    outgoing: Outgoing,
    incoming: mpsc::Receiver<Incoming>,
    pending: Arc<Pending>,
    home: Arc<Home>,
    caller: Caller,
    /// The conversation, by the CLI's own id.
    session: Option<String>,
    ended: bool,
    cleared: bool,
    clear: Duration,
    close: Duration,
    /// Its writer, its reader, and the answers it waits for.
    tasks: TaskTracker,
    stop: DropGuard,
}

/// What a turn hears.
#[derive(Debug)]
pub(crate) enum Incoming {
    Frame(Box<Frame>),
    Decided(Approval),
    Asked(ApprovalAsk),
    Answered {
        call_id: String,
        decision: ApprovalDecision,
    },
    /// One of our tools could not be run at all.
    Unavailable {
        call_id: String,
        name: String,
        reason: String,
    },
    Broken(FramingError),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("can't prepare a private folder for the Claude Code CLI: {0}")]
    Home(#[source] std::io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("the Claude Code CLI ended during its start: {detail}")]
    Died { detail: String },
    #[error("the Claude Code CLI did not answer the handshake within {} s", .0.as_secs_f64())]
    Silent(Duration),
    #[error("the Claude Code CLI refused the handshake: {0}")]
    Refused(String),
}

impl OpenError {
    /// Whether the next attempt may succeed: nothing is wrong that stays wrong.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Died { .. } => true,
            Self::Process(error) => matches!(error, ProcessError::Spawn { .. } | ProcessError::Io(_)),
            Self::Home(_) | Self::Silent(_) | Self::Refused(_) => false,
        }
    }
}

impl Connection {
    /// Starts the CLI and waits until it is ready for a message. `home` is that of an earlier process when its
    /// conversation is gone on with.
    pub(crate) async fn open(
        options: &ClaudeOptions,
        host: &Arc<Host>,
        home: Arc<Home>,
        begin: &Begin,
    ) -> Result<Self, OpenError> {
        let spec = ProcessSpec::new(&options.cli, child_env(options, &home))
            .args(argv(options, &home, begin))
            .current_dir(home.working_directory());
        let mut process = ChildProcess::spawn(&spec)?;
        let (outgoing, lines) = Outgoing::new();
        let (heard, incoming) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let pending = Arc::new(Pending::new());
        let caller = Caller::default();
        let tasks = TaskTracker::new();
        if let Some(stdin) = process.take_stdin() {
            tasks.spawn(write(stdin, lines));
        }
        if let Some(stdout) = process.take_stdout() {
            let answering = host.answering(
                outgoing.clone(),
                heard.clone(),
                stop.clone(),
                caller.clone(),
                tasks.clone(),
            );
            tasks.spawn(read(stdout, Arc::clone(&pending), answering, heard));
        }
        let mut connection = Self {
            process,
            outgoing,
            incoming,
            pending,
            home,
            caller,
            session: Some(begin.session().to_owned()),
            ended: false,
            cleared: false,
            clear: options.limits.clear,
            close: options.limits.close,
            tasks,
            stop: stop.drop_guard(),
        };
        connection.shake_hands(options, host).await?;
        Ok(connection)
    }

    async fn shake_hands(&mut self, options: &ClaudeOptions, host: &Host) -> Result<(), OpenError> {
        let request = host.initialize(&options.agents);
        match self.request(&request, options.limits.handshake).await {
            Ok(_) => Ok(()),
            Err(ControlError::TimedOut(after)) => Err(OpenError::Silent(after)),
            Err(ControlError::Refused(refusal)) => Err(OpenError::Refused(refusal)),
            Err(ControlError::Gone) => Err(self.died().await),
        }
    }

    async fn died(&mut self) -> OpenError {
        OpenError::Died {
            detail: self.obituary().await,
        }
    }

    pub(crate) fn send(&self, line: String) {
        self.outgoing.line(line);
    }

    /// A request of ours to the CLI. It fails at once when the program ends, whoever else holds its pipes.
    async fn request(&mut self, request: &Value, patience: Duration) -> Result<Value, ControlError> {
        tokio::select! {
            biased;
            answer = self.pending.request(&self.outgoing, request, patience) => answer,
            _ = self.process.wait() => {
                self.ended = true;
                Err(ControlError::Gone)
            }
        }
    }

    /// What the CLI says next; `None` when it is gone.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        let incoming = self.heard().await;
        if let Some(Incoming::Frame(frame)) = &incoming
            && let Frame::Init(init) = &**frame
        {
            self.session.clone_from(&init.session_id);
        }
        incoming
    }

    async fn heard(&mut self) -> Option<Incoming> {
        if !self.ended {
            tokio::select! {
                biased;
                incoming = self.incoming.recv() => return incoming,
                _ = self.process.wait() => self.ended = true,
            }
        }
        // What the program wrote before it ended is still to be read, unless a stranger keeps the pipe open.
        timeout(REST, self.incoming.recv()).await.ok().flatten()
    }

    /// What was said since the turn before ended, and by now is meant for nobody.
    pub(crate) fn left_over(&mut self) -> Option<Incoming> {
        self.incoming.try_recv().ok()
    }

    /// Whether its process or its output has ended. Of a process that was killed the output may tell later.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.process.has_ended() || self.incoming.is_closed() && self.incoming.is_empty()
    }

    /// Waits until the servers that `required` names are connected; what they say that can't be started.
    pub(crate) async fn failed_servers(
        &mut self,
        names: &[&str],
        patience: Duration,
    ) -> Result<Vec<FailedServer>, OpenError> {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.request(&json!({"subtype": "mcp_status"}), patience).await;
            let status = match status {
                Ok(status) => status,
                Err(ControlError::Gone) => return Err(self.died().await),
                Err(ControlError::Refused(_) | ControlError::TimedOut(_)) => Value::Null,
            };
            let servers = status
                .get("mcpServers")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let of = |name: &str| {
                servers
                    .iter()
                    .find(|server| server.get("name").and_then(Value::as_str) == Some(name))
            };
            let text = |server: Option<&Value>, key: &str| {
                let text = server.and_then(|server| server.get(key)).and_then(Value::as_str);
                text.map(str::to_owned)
            };
            let states: Vec<_> = names
                .iter()
                .map(|name| (*name, text(of(name), "status"), text(of(name), "error")))
                .collect();
            let waiting = states
                .iter()
                .any(|(_, state, _)| matches!(state.as_deref(), None | Some("pending")));
            if waiting && Instant::now() < deadline {
                // The CLI tells states only when it is asked.
                sleep(Duration::from_millis(20)).await;
                continue;
            }
            let failed = states
                .into_iter()
                .filter(|(_, state, _)| state.as_deref() != Some("connected"))
                .map(|(name, state, error)| FailedServer {
                    name: name.to_owned(),
                    reason: match (error, state.as_deref()) {
                        (Some(error), _) => error,
                        (None, None | Some("pending")) => {
                            format!("it is not ready after {} s", patience.as_secs_f64())
                        }
                        (None, Some("needs-auth")) => "it wants a sign-in".to_owned(),
                        (None, Some(state)) => state.to_owned(),
                    },
                });
            return Ok(failed.collect());
        }
    }

    /// How the program ended, and the last it said. Ends it if it still runs.
    pub(crate) async fn obituary(&mut self) -> String {
        let exit = match timeout(REST, self.process.wait()).await {
            Ok(exit) => exit,
            Err(_) => self.process.stop(self.close).await,
        };
        self.process.settle_stderr(REST).await;
        let exit = match exit {
            Ok(exit) => exit.to_string(),
            Err(error) => error.to_string(),
        };
        let stderr = self.process.stderr();
        let lines: Vec<_> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines
            .get(lines.len().saturating_sub(LAST_LINES)..)
            .unwrap_or_default();
        if last.is_empty() {
            exit
        } else {
            format!("{exit}: {}", last.join("; "))
        }
    }

    pub(crate) fn is_cleared(&self) -> bool {
        self.cleared
    }

    /// Closes the CLI's input and lets it end by itself: it may have telemetry to send. Then ends it.
    pub(crate) async fn close(self) {
        let Self {
            mut process,
            outgoing,
            mut incoming,
            close,
            tasks,
            stop,
            ..
        } = self;
        drop(stop);
        outgoing.close();
        let end = async {
            match timeout(close, process.wait()).await {
                Ok(exit) => exit,
                Err(_) => process.stop(close.min(TERMINATE)).await,
            }
        };
        // Its output is read to the end, or a full pipe would stop it.
        let read = async {
            while incoming.recv().await.is_some() {}
            pending::<()>().await;
        };
        tokio::select! {
            exit = end => {
                if let Err(error) = exit {
                    tracing::debug!(%error, "the Claude Code CLI did not end well");
                }
            }
            () = read => {}
        }
        drop(incoming);
        tasks.close();
        // A process that is not of this group may hold the pipes open.
        let _ = timeout(REST, tasks.wait()).await;
    }

    /// Whose turn it runs from now on.
    pub(crate) fn serve(&self, request: &TurnRequest, conversation: Conversation) {
        self.caller.set(request, conversation);
    }

    /// The folder in which its conversations are kept.
    pub(crate) fn home(&self) -> Arc<Home> {
        Arc::clone(&self.home)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// An external MCP server that is not there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedServer {
    pub(crate) name: String,
    pub(crate) reason: String,
}

fn child_env(options: &ClaudeOptions, home: &Home) -> ChildEnv {
    let retries = options.limits.api_retries.to_string();
    let own = [
        ("HOME", home.home().into_os_string()),
        ("CLAUDE_CONFIG_DIR", home.config().into_os_string()),
        ("TMPDIR", home.temporary().into_os_string()),
        ("PWD", home.working_directory().into()),
        ("CLAUDE_CODE_ENTRYPOINT", "sdk-rust".into()),
        ("CLAUDE_CODE_MAX_RETRIES", retries.into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("DISABLE_TELEMETRY", "1".into()),
        ("DISABLE_ERROR_REPORTING", "1".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
        // A result is final: no agent goes on behind it.
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1".into()),
        // Tools are offered as they are, not behind a search.
        ("ENABLE_TOOL_SEARCH", "false".into()),
    ];
    let given = options
        .env
        .iter()
        .map(|(name, value)| (name.into(), value.expose_secret().into()));
    own.into_iter()
        .map(|(name, value)| (name.into(), value))
        .chain(given)
        .collect()
}
