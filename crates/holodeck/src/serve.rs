//! Agents behind HTTP.

use std::{
    collections::HashSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck_backend_api::{BackendError, Occasion};
use holodeck_chat::{AgentRunService, Concurrency, FileVault};
use holodeck_events::{EventStore, Retention, StoreError};
use holodeck_model::{Agent, Env, OnDisconnect, Presence, ServeConcurrency, ServeConfig, ServeProtocol};
use holodeck_serve::{Access, AnswerSettings, App, Protocols, ServeOptions, ServedAgent, ServedTool};
use holodeck_yaml::LoadedAgent;
use tokio::{
    net::{TcpListener, TcpSocket, lookup_host},
    sync::mpsc::UnboundedReceiver,
    time::{MissedTickBehavior, interval},
};

use crate::{
    Chat, ChatOptions, OpenOptions, PrepareError,
    agent::{
        secrets::shared_environment,
        targets::{RefusedTarget, check_yaml_targets},
    },
    chat::event_store::{OpenEventsError, open_events, retention},
    file_vault,
};

mod access;

use access::{access, allowed_origins};

/// Runs at the same time where nothing else limits them.
const MAX_RUNS: usize = 64;
/// The same for Claude Code where the memory of the machine is unknown.
const MAX_CLAUDE_RUNS: usize = 50;
/// Memory that is left to everything else.
const RESERVED_MIB: u64 = 400;
/// Open files that are left to everything but connections.
const RESERVED_FILES: usize = 512;
/// Connections that may wait to be accepted: all clients come at once after a restart.
const BACKLOG: u32 = 4096;
/// How often old events are deleted.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// The settings of a server on the command line.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct ServeFlags {
    /// The address.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// Origins of pages that may use the server, besides those of the YAML.
    pub cors_origins: Vec<String>,
    /// How long runs may take to end when the server stops.
    pub drain: Option<Duration>,
    /// The protocols that clients can use.
    pub protocol: Option<ServeProtocol>,
    /// How the agents are opened.
    pub open: OpenOptions,
    /// Overrides the time limit of a turn.
    pub timeout: Option<Duration>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An agent could not be opened.
    #[error("{error}")]
    Agent {
        /// Its file.
        file: PathBuf,
        /// Why.
        error: Box<PrepareError>,
    },
    /// The configuration is wrong.
    #[error("{message}")]
    Config {
        /// The problem.
        message: String,
        /// The next step.
        hint: String,
    },
    /// The YAML names a file that must not be written.
    #[error(transparent)]
    Target(RefusedTarget),
    /// The store of the conversations cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        reason: String,
    },
}

impl From<OpenEventsError> for ServeError {
    fn from(error: OpenEventsError) -> Self {
        match error {
            OpenEventsError::Target(refused) => Self::Target(refused),
            OpenEventsError::Store(error) => Self::Store(error),
        }
    }
}

/// A server that listens, and its agents.
pub struct Server {
    chats: Vec<Chat>,
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    store: Arc<dyn EventStore>,
    retention: Retention,
    needs_token: bool,
}

impl Server {
    /// Listens, and opens agents. The `serve:` and `events:` blocks of the first one count.
    pub async fn open(
        agents: Vec<(PathBuf, LoadedAgent)>,
        env: &Env,
        flags: ServeFlags,
    ) -> Result<Self, ServeError> {
        let Some((first_file, first)) = agents.first() else {
            return Err(config_error("no agent is named", "name an agent file"));
        };
        let env = &shared_environment(agents.iter().map(|(_, agent)| &**agent), env);
        let config = first.config.serve.clone().unwrap_or_default();
        let retention = retention(&first.config);
        let mut names = HashSet::new();
        for (_, agent) in &agents {
            if !names.insert(agent.config.name.clone()) {
                let message = format!("two agents have the name `{}`", agent.config.name);
                return Err(config_error(
                    message,
                    "clients choose an agent by its name: change one",
                ));
            }
        }
        let (listener, address) = listen(&first.config, &config, &flags).await?;
        let cors_origins = allowed_origins(&config, &flags)?;
        let place = |pointer: &str| first.locate(pointer);
        let access = access(&config, env, address, &cors_origins, &place)?;
        let deployed = first
            .config
            .deployment
            .as_ref()
            .map(|deployment| deployment.protocol);
        let protocol = flags.protocol.or(deployed).unwrap_or(ServeProtocol::Both);
        for (_, agent) in &agents {
            check_yaml_targets(agent, env).map_err(ServeError::Target)?;
        }
        let store = open_events(first_file, first, env, Occasion::Serve).await?;
        let files = file_vault(first_file, &first.config);
        let mut opened = Opened::default();
        let settings = Settings {
            config: &config,
            flags: &flags,
            claude_agents: agents
                .iter()
                .filter(|(_, agent)| agent.config.is_claude())
                .count(),
        };
        for (file, agent) in agents {
            let agent = open_agent(agent, &file, env, &store, &files, &settings).await;
            match agent {
                Ok((chat, served)) => {
                    opened.chats.push(chat);
                    opened.served.push(served);
                }
                Err(error) => {
                    opened.close().await;
                    let error = Box::new(error);
                    return Err(ServeError::Agent { file, error });
                }
            }
        }
        let defaults = ServeOptions::default();
        let needs_token = matches!(access, Access::Tokens(_));
        let options = ServeOptions {
            access,
            protocols: protocols(protocol),
            cors_origins,
            // Without a setting, each agent has its own limit.
            max_runs: configured_runs(&config).unwrap_or(usize::MAX),
            on_disconnect: match config.on_disconnect {
                OnDisconnect::Continue => holodeck_serve::OnDisconnect::Continue,
                OnDisconnect::Cancel => holodeck_serve::OnDisconnect::Cancel,
            },
            slow_consumer: config
                .slow_consumer_seconds
                .map_or(defaults.slow_consumer, |seconds| {
                    Duration::from_secs(seconds.into())
                }),
            drain: flags.drain.unwrap_or(defaults.drain),
            max_connections: defaults.max_connections.min(connections()),
            ..defaults
        };
        Ok(Self {
            app: App::new(opened.served, Arc::clone(&store), options),
            chats: opened.chats,
            listener,
            address,
            store,
            retention,
            needs_token,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether clients must send a token.
    pub fn needs_token(&self) -> bool {
        self.needs_token
    }

    /// The agents.
    pub fn chats(&self) -> &[Chat] {
        &self.chats
    }

    /// Serves until a first signal, then lets runs end until a second one, and closes the agents.
    pub async fn run(self, signals: UnboundedReceiver<()>) -> Result<(), BackendError> {
        let sweeping = sweep(&*self.store, self.retention);
        tokio::select! {
            () = holodeck_serve::serve(self.app, self.listener, signals) => {}
            never = sweeping => match never {},
        }
        let mut result = Ok(());
        for chat in self.chats {
            result = result.and(chat.close().await);
        }
        result
    }
}

#[derive(Default)]
struct Opened {
    chats: Vec<Chat>,
    served: Vec<ServedAgent>,
}

impl Opened {
    /// Closes what is open after an error, which is the cause that counts.
    async fn close(self) {
        drop(self.served);
        for chat in self.chats {
            let _ = chat.close().await;
        }
    }
}

/// The settings that all agents of a server share.
struct Settings<'a> {
    config: &'a ServeConfig,
    flags: &'a ServeFlags,
    /// How many of them are answered by Claude Code, which needs memory.
    claude_agents: usize,
}

async fn open_agent(
    agent: LoadedAgent,
    file: &Path,
    env: &Env,
    store: &Arc<dyn EventStore>,
    files: &FileVault,
    settings: &Settings<'_>,
) -> Result<(Chat, ServedAgent), PrepareError> {
    let Settings {
        config,
        flags,
        claude_agents,
    } = *settings;
    tracing::debug!(file = %file.display(), "opening an agent");
    let options = ChatOptions {
        open: flags.open.clone(),
        occasion: Occasion::Serve,
        timeout: flags.timeout,
        presence: Presence::Person,
        concurrency: match config.concurrency {
            ServeConcurrency::Reject => Concurrency::Reject,
            ServeConcurrency::Enqueue => Concurrency::Enqueue,
            ServeConcurrency::Interrupt => Concurrency::Interrupt,
        },
        files: Some(files.clone()),
    };
    let chat = Chat::open(agent, env, Arc::clone(store), options).await?;
    let agent = &chat.agent().config;
    let (backend, unattended) = chat.unattended();
    let served = ServedAgent {
        name: agent.name.clone(),
        description: agent.description.clone(),
        model: agent.answerer(),
        tools: agent
            .tools
            .iter()
            .map(|tool| ServedTool {
                name: tool.name().to_owned(),
                description: Some(tool.description().to_owned()).filter(|text| !text.is_empty()),
                kind: tool.kind().to_owned(),
            })
            .collect(),
        service: chat.service().clone(),
        unattended: Arc::new(move |store| {
            AgentRunService::new(Arc::clone(&backend), store, unattended.clone())
        }),
        answers: answer_settings(agent),
        max_runs: max_runs(agent, config, claude_agents),
    };
    Ok((chat, served))
}

/// A specialist or Claude Code, which answers in its own way, follows no wishes for one answer.
fn answer_settings(agent: &Agent) -> AnswerSettings {
    AnswerSettings {
        follows_wishes: agent.backend_name() == "openai" && agent.routing.is_none(),
        max_tokens: agent.model.as_ref().and_then(|model| model.max_tokens),
        has_format: agent.response_format.is_some(),
    }
}

fn configured_runs(config: &ServeConfig) -> Option<usize> {
    let runs = config.max_runs?;
    Some(usize::try_from(runs).unwrap_or(usize::MAX))
}

/// How many runs of an agent may be active: as configured, or as the memory of the machine allows, which the agents
/// of Claude share.
fn max_runs(agent: &Agent, config: &ServeConfig, claude_agents: usize) -> usize {
    let configured = configured_runs(config);
    if !agent.is_claude() {
        return configured.unwrap_or(MAX_RUNS);
    }
    let claude = agent.claude.clone().unwrap_or_default();
    let limit = claude
        .max_concurrent_sessions
        .map(|runs| usize::try_from(runs).unwrap_or(usize::MAX));
    let by_memory = || {
        let estimate = u64::from(claude.session_memory_estimate_mib).max(1);
        let runs = memory_mib().map_or(MAX_CLAUDE_RUNS, |memory| {
            let runs = memory.saturating_sub(RESERVED_MIB) / estimate;
            usize::try_from(runs).unwrap_or(usize::MAX)
        });
        (runs / claude_agents.max(1)).max(1)
    };
    configured
        .into_iter()
        .chain(limit)
        .min()
        .unwrap_or_else(by_memory)
}

/// The memory this process may use, as the kernel reports it.
fn memory_mib() -> Option<u64> {
    let number = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse::<u64>().ok().map(|bytes| bytes >> 20)
    };
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
            .map(|kib| kib >> 10)
    });
    let group =
        number("/sys/fs/cgroup/memory.max").or_else(|| number("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    machine.into_iter().chain(group).min()
}

/// How many connections the limit of open files allows, with files for everything else.
fn connections() -> usize {
    let limit = holodeck_process::max_open_files();
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    limit.saturating_sub(RESERVED_FILES).max(limit / 2).max(1)
}

fn protocols(protocol: ServeProtocol) -> Protocols {
    Protocols {
        rest: protocol != ServeProtocol::AgUi,
        ag_ui: protocol != ServeProtocol::Rest,
    }
}

async fn listen(
    agent: &Agent,
    config: &ServeConfig,
    flags: &ServeFlags,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let port = agent
        .deployment
        .as_ref()
        .map_or(8000, |deployment| deployment.port);
    let configured = config
        .listen
        .as_deref()
        .and_then(|listen| listen.rsplit_once(':'));
    let (host, own_port) = configured.map_or(("127.0.0.1", None), |(host, port)| (host, Some(port)));
    let host = flags.host.as_deref().unwrap_or(host);
    let port = match (flags.port, own_port) {
        (Some(port), _) => port.to_string(),
        (None, Some(port)) => port.to_owned(),
        (None, None) => port.to_string(),
    };
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    let host = if is_bare_ipv6 {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let address = format!("{host}:{port}");
    let failed = |reason: std::io::Error| ServeError::Listen {
        address: address.clone(),
        reason: holodeck_model::io_reason(&reason),
    };
    let addresses: Vec<SocketAddr> = lookup_host(&address).await.map_err(failed)?.collect();
    let listener = bind(&addresses).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Listens on the first of these addresses that can be used.
fn bind(addresses: &[SocketAddr]) -> std::io::Result<TcpListener> {
    let mut failure = std::io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        let listening = (|| {
            let socket = if address.is_ipv4() {
                TcpSocket::new_v4()?
            } else {
                TcpSocket::new_v6()?
            };
            // A server that starts again takes the port of the one before; elsewhere this would take that of one that runs.
            #[cfg(unix)]
            socket.set_reuseaddr(true)?;
            socket.bind(*address)?;
            socket.listen(BACKLOG)
        })();
        match listening {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn config_error(message: impl Into<String>, hint: impl Into<String>) -> ServeError {
    ServeError::Config {
        message: message.into(),
        hint: hint.into(),
    }
}

/// Deletes old events again and again.
async fn sweep(store: &dyn EventStore, retention: Retention) -> std::convert::Infallible {
    let mut ticks = interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = store.sweep(retention).await {
            tracing::warn!(%error, "old events were not deleted");
        }
    }
}
