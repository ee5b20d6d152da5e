//! A running Claude CLI with its pipes: started, initialized, read and ended.
//!
//! Delivers frames in order and answers the CLI's requests through the host. Knows nothing of turns; those are in
//! `turn`.

use std::{future::pending, sync::Arc, time::Duration};

use holodeck_backend_api::{Conversation, Thinking, TurnRequest};
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
    ClaudeOptions, ThinkingOff,
    argv::{ConversationStart, MIN_THINKING_TOKENS, argv},
    control::{ControlError, Outgoing, Pending},
    home::Home,
    host::{Caller, Host},
    incoming::Incoming,
    subagents::definitions,
    wire::{Frame, Spending},
};

mod clearing;
mod pipes;
mod printed;

pub(crate) use clearing::ClearError;
use pipes::{read, write};
pub(crate) use printed::Printed;

/// The number of unread frames after which the CLI has to wait.
const QUEUE_SIZE: usize = 1024;
/// How long to read the remaining output of an exited program. Another process may keep the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between SIGTERM and SIGKILL, if the CLI has not exited by itself.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);
/// How many lines of standard error to report after an unexpected exit.
const STDERR_LINES: usize = 5;

/// A running CLI that has answered the handshake. Dropping it kills its process group.
pub(crate) struct Connection {
    process: ChildProcess,
    outgoing: Outgoing,
    incoming: mpsc::Receiver<Incoming>,
    pending: Arc<Pending>,
    printed: Arc<Printed>,
    home: Arc<Home>,
    caller: Caller,
    /// The CLI's id of the conversation.
    session: Option<String>,
    /// How the model reasons, as it was set last.
    thinking: Option<Thinking>,
    /// The tokens and cost of its models so far; `None` if that is not known.
    spent: Option<Spending>,
    has_exited: bool,
    is_cleared: bool,
    clear: Duration,
    close: Duration,
    /// The writer, the reader, and the answers to the CLI's requests.
    tasks: TaskTracker,
    stop: DropGuard,
}

/// Why no connection was opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("can't prepare a private folder for the Claude Code CLI: {0}")]
    Home(#[source] std::io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("the Claude Code CLI exited during startup: {detail}")]
    Exited { detail: String },
    #[error("the Claude Code CLI did not answer the handshake within {} s{printed}", after.as_secs_f64())]
    TimedOut { after: Duration, printed: String },
    #[error("the Claude Code CLI refused the handshake: {0}")]
    Refused(String),
}

impl OpenError {
    /// Whether the next attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Exited { .. } => true,
            Self::Process(error) => matches!(error, ProcessError::Spawn { .. } | ProcessError::Io(_)),
            Self::Home(_) | Self::TimedOut { .. } | Self::Refused(_) => false,
        }
    }
}

impl Connection {
    /// Starts the CLI and waits until it is ready for a message. To resume a conversation, pass the `home` of its
    /// earlier process.
    pub(crate) async fn open(
        options: &ClaudeOptions,
        host: &Arc<Host>,
        home: Arc<Home>,
        start: &ConversationStart,
        withheld: &[String],
    ) -> Result<Self, OpenError> {
        let spec = ProcessSpec::new(&options.cli, child_env(options, &home))
            .args(argv(options, &home, start, withheld))
            .current_dir(home.working_directory());
        let mut process = ChildProcess::spawn(&spec)?;
        // It is deleted when nothing can write to it any more.
        process.keep(Arc::clone(&home));
        let (outgoing, lines) = Outgoing::new();
        let (sender, incoming) = mpsc::channel(QUEUE_SIZE);
        let stop = CancellationToken::new();
        let pending = Arc::new(Pending::new());
        let printed = Arc::new(Printed::default());
        let caller = Caller::default();
        let tasks = TaskTracker::new();
        if let Some(stdin) = process.take_stdin() {
            tasks.spawn(write(stdin, lines));
        }
        if let Some(stdout) = process.take_stdout() {
            let responder = host.responder(
                outgoing.clone(),
                sender.clone(),
                stop.clone(),
                caller.clone(),
                Arc::clone(&home),
                tasks.clone(),
            );
            tasks.spawn(read(
                stdout,
                Arc::clone(&pending),
                responder,
                sender,
                Arc::clone(&printed),
            ));
        }
        let mut connection = Self {
            process,
            outgoing,
            incoming,
            pending,
            printed,
            home,
            caller,
            session: Some(start.session().to_owned()),
            thinking: options.thinking,
            // Some versions add what the conversation used before.
            spent: matches!(start, ConversationStart::New { .. }).then(Spending::default),
            has_exited: false,
            is_cleared: false,
            clear: options.limits.clear,
            close: options.limits.close,
            tasks,
            stop: stop.drop_guard(),
        };
        connection.initialize(options, host).await?;
        Ok(connection)
    }

    async fn initialize(&mut self, options: &ClaudeOptions, host: &Host) -> Result<(), OpenError> {
        let request = host.initialize_request(definitions(options));
        let printed = options.limits.printed;
        self.must_answer(&request, options.limits.handshake, printed)
            .await?;
        let Some(document) = &options.mcp_servers.document else {
            return Ok(());
        };
        // Over the control channel: a file could be found, and arguments and variables be seen.
        let document: Value = serde_json::from_str(document.expose_secret()).unwrap_or_default();
        let mut servers = host.own_servers();
        if let Some(Value::Object(others)) = document.get("mcpServers") {
            servers.extend(others.clone());
        }
        let request = json!({"subtype": "mcp_set_servers", "servers": servers});
        // Servers that cannot be started are found when their state is asked for.
        let time_limit = options.limits.mcp_start + options.limits.handshake;
        self.must_answer(&request, time_limit, time_limit).await
    }

    /// A program that prints something else than messages is not waited for as long: it may be another one.
    async fn must_answer(
        &mut self,
        request: &Value,
        time_limit: Duration,
        patience: Duration,
    ) -> Result<(), OpenError> {
        let printed = Arc::clone(&self.printed);
        let is_strange = async {
            printed.wait().await;
            sleep(patience).await;
        };
        let answer = tokio::select! {
            biased;
            answer = self.request(request, time_limit) => answer,
            () = is_strange => Err(ControlError::TimedOut(patience)),
        };
        match answer {
            Ok(_) => Ok(()),
            Err(ControlError::TimedOut(after)) => Err(OpenError::TimedOut {
                after,
                printed: match self.last_output() {
                    output if output.is_empty() => String::new(),
                    output => format!("; it printed: {output}"),
                },
            }),
            Err(ControlError::Refused(refusal)) => Err(OpenError::Refused(refusal)),
            Err(ControlError::Disconnected) => Err(self.exit_error().await),
        }
    }

    async fn exit_error(&mut self) -> OpenError {
        OpenError::Exited {
            detail: self.exit_report().await,
        }
    }

    pub(crate) fn send(&self, line: String) {
        self.outgoing.line(line);
    }

    /// Sends a request to the CLI. Fails at once when the program exits, even if another process holds its pipes.
    async fn request(&mut self, request: &Value, time_limit: Duration) -> Result<Value, ControlError> {
        tokio::select! {
            biased;
            answer = self.pending.request(&self.outgoing, request, time_limit) => answer,
            _ = self.process.wait() => {
                self.has_exited = true;
                Err(ControlError::Disconnected)
            }
        }
    }

    /// Sets how the model reasons from now on.
    pub(crate) async fn set_thinking(
        &mut self,
        thinking: Option<Thinking>,
        time_limit: Duration,
    ) -> Result<(), ControlError> {
        if thinking == self.thinking {
            return Ok(());
        }
        let tokens = match thinking {
            None => Value::Null,
            Some(Thinking::Off) => 0.into(),
            Some(Thinking::Budget(tokens)) => tokens.max(MIN_THINKING_TOKENS).into(),
        };
        let request = json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens });
        self.request(&request, time_limit).await?;
        self.thinking = thinking;
        Ok(())
    }

    /// The next input; `None` after the CLI has exited.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        let incoming = self.receive().await;
        if let Some(Incoming::Frame(frame)) = &incoming
            && let Frame::Init(init) = &**frame
        {
            self.session.clone_from(&init.session_id);
        }
        incoming
    }

    async fn receive(&mut self) -> Option<Incoming> {
        if !self.has_exited {
            tokio::select! {
                biased;
                incoming = self.incoming.recv() => return incoming,
                _ = self.process.wait() => self.has_exited = true,
            }
        }
        // Read the rest of the output. The time limit is for a pipe that another process keeps open.
        timeout(DRAIN_TIMEOUT, self.incoming.recv()).await.ok().flatten()
    }

    /// An input that arrived after the previous turn ended.
    pub(crate) fn try_next(&mut self) -> Option<Incoming> {
        self.incoming.try_recv().ok()
    }

    /// Whether the process or its output has ended. The output of a killed process may end later.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.process.has_ended() || self.incoming.is_closed() && self.incoming.is_empty()
    }

    /// Waits until the servers are connected. Returns the servers that failed and the tools of the others.
    pub(crate) async fn wait_for_servers(
        &mut self,
        names: &[&str],
        time_limit: Duration,
    ) -> Result<(Vec<FailedServer>, Vec<ListedServer>), OpenError> {
        let deadline = Instant::now() + time_limit;
        loop {
            let status = self.request(&json!({"subtype": "mcp_status"}), time_limit).await;
            let status = match status {
                Ok(status) => status,
                Err(ControlError::Disconnected) => return Err(self.exit_error().await),
                Err(ControlError::Refused(_) | ControlError::TimedOut(_)) => Value::Null,
            };
            let servers = status
                .get("mcpServers")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let find = |name: &str| {
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
                .map(|name| (*name, text(find(name), "status"), text(find(name), "error")))
                .collect();
            let is_pending = states
                .iter()
                .any(|(_, state, _)| matches!(state.as_deref(), None | Some("pending")));
            if is_pending && Instant::now() < deadline {
                // The CLI reports states only on request.
                sleep(Duration::from_millis(20)).await;
                continue;
            }
            let listed = names
                .iter()
                .filter_map(|name| ListedServer::parse(name, find(name)?));
            let listed: Vec<_> = listed.collect();
            let failed = states
                .into_iter()
                .filter(|(_, state, _)| state.as_deref() != Some("connected"))
                .map(|(name, state, error)| FailedServer {
                    name: name.to_owned(),
                    reason: match (error, state.as_deref()) {
                        (_, Some("needs-auth")) => {
                            format!("it needs a login; type `holodeck mcp login {name}`")
                        }
                        (Some(error), _) => error,
                        (None, None | Some("pending")) => {
                            format!("it was not ready after {} s", time_limit.as_secs_f64())
                        }
                        (None, Some(state)) => state.to_owned(),
                    },
                });
            return Ok((failed.collect(), listed));
        }
    }

    /// Reports how the program exited and its last lines of standard error. Ends the program if it still runs.
    pub(crate) async fn exit_report(&mut self) -> String {
        let exit = match timeout(DRAIN_TIMEOUT, self.process.wait()).await {
            Ok(exit) => exit,
            Err(_) => self.process.stop(self.close).await,
        };
        self.process.settle_stderr(DRAIN_TIMEOUT).await;
        let exit = match exit {
            Ok(exit) => exit.to_string(),
            Err(error) => error.to_string(),
        };
        match self.last_output() {
            output if output.is_empty() => exit,
            output => format!("{exit}: {output}"),
        }
    }

    /// The last lines that the program printed and that are no messages.
    fn last_output(&self) -> String {
        let stderr = self.process.stderr();
        let lines: Vec<_> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines
            .get(lines.len().saturating_sub(STDERR_LINES)..)
            .unwrap_or_default();
        let mut output = self.printed.texts();
        output.extend(last.iter().map(|line| (*line).to_owned()));
        output.join("; ")
    }

    /// The tokens and cost of its models so far; `None` if that is not known.
    pub(crate) fn spent(&self) -> Option<Spending> {
        self.spent.clone()
    }

    /// Sets what its models used so far.
    pub(crate) fn set_spent(&mut self, spent: Option<&Spending>) {
        self.spent = spent.cloned();
    }

    pub(crate) fn is_cleared(&self) -> bool {
        self.is_cleared
    }

    /// Closes the CLI's input and lets it exit by itself, because it may send telemetry. Ends it after the time limit.
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
                Err(_) => process.stop(close.min(TERMINATE_TIMEOUT)).await,
            }
        };
        // Discard the output; a full pipe would block the CLI.
        let read = async {
            while incoming.recv().await.is_some() {}
            pending::<()>().await;
        };
        tokio::select! {
            exit = end => {
                if let Err(error) = exit {
                    tracing::debug!(%error, "cannot determine how the Claude Code CLI exited");
                }
            }
            () = read => {}
        }
        drop(incoming);
        tasks.close();
        // A process outside of this group may keep the pipes open.
        let _ = timeout(DRAIN_TIMEOUT, tasks.wait()).await;
    }

    /// Sets the turn on whose behalf tools are called.
    pub(crate) fn set_caller(&self, request: &TurnRequest, conversation: Conversation) {
        self.caller.set(request, conversation);
    }

    /// The folder that contains its conversations.
    pub(crate) fn home(&self) -> Arc<Home> {
        Arc::clone(&self.home)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// An external MCP server that did not start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedServer {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// The tools of an external MCP server that is connected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedServer {
    pub(crate) name: String,
    /// The server's own names.
    pub(crate) tools: Vec<String>,
}

impl ListedServer {
    /// Parses the status of a server. `None` if it is not connected, or the CLI does not list its tools.
    fn parse(name: &str, status: &Value) -> Option<Self> {
        let tools = status.get("tools")?.as_array()?.iter();
        let is_connected = status.get("status").and_then(Value::as_str) == Some("connected");
        let tools = tools.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned()));
        is_connected.then(|| Self {
            name: name.to_owned(),
            tools: tools.collect(),
        })
    }
}

fn child_env(options: &ClaudeOptions, home: &Home) -> ChildEnv {
    let retries = options.limits.api_retries.to_string();
    let mcp_start = options.limits.mcp_start.as_millis().to_string();
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
        // Its handshake waits for servers, by default for half a minute.
        ("MCP_TIMEOUT", mcp_start.into()),
        // The result of a turn is final: no agent may continue after it.
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1".into()),
        // Offer all tools directly, without a search tool.
        ("ENABLE_TOOL_SEARCH", "false".into()),
    ];
    let configured = options
        .env
        .iter()
        .map(|(name, value)| (name.into(), value.expose_secret().into()));
    let is_off = options.thinking == Some(Thinking::Off) && options.thinking_off == ThinkingOff::OfProcess;
    let asked = [
        ("CLAUDE_CODE_DISABLE_THINKING", is_off.then(|| "1".to_owned())),
        (
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            options.max_tokens.map(|tokens| tokens.to_string()),
        ),
        (
            "ANTHROPIC_BETAS",
            (!options.betas.is_empty()).then(|| options.betas.join(",")),
        ),
    ];
    let asked = asked
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?.into())));
    own.into_iter()
        .map(|(name, value)| (name.into(), value))
        .chain(asked)
        .chain(configured)
        .collect()
}
