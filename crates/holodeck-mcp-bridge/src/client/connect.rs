use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use holodeck_backend_api::{Tool, ToolSource};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{Env, McpSampling, McpTool, McpTransport};
use rmcp::model::ServerPeerInfo;

use crate::client::connection::Surroundings;
use crate::client::listing::Offer;
use crate::client::plan::Plan;
use crate::client::sampler::Sampler;
use crate::client::server::Server;
use crate::client::{ElicitationHost, SamplingHost};
use crate::{ServerNeed, names};

/// What connecting to servers needs.
#[derive(Clone)]
pub struct McpOptions {
    /// What relative paths of a server are relative to when its file is not known.
    pub base_dir: PathBuf,
    /// Where servers get the harmless variables from, and `env_file` its `${NAME}`s.
    pub env: Env,
    /// How long a server may take to start and to list what it has, unless its tool sets a limit for requests.
    pub startup: Duration,
    /// Asks a model for servers whose tool says `sampling: allow`; without it they are refused.
    pub sampling: Option<Arc<dyn SamplingHost>>,
    /// Answers for the person; without it every question is declined.
    pub elicitation: Option<Arc<dyn ElicitationHost>>,
    /// Folders that servers are told of. Some take them for what they may touch, whatever the YAML says.
    pub roots: Vec<PathBuf>,
}

impl McpOptions {
    /// A minute to start, no model and no person for servers, and no roots.
    pub fn new(base_dir: impl Into<PathBuf>, env: Env) -> Self {
        Self {
            base_dir: base_dir.into(),
            env,
            startup: Duration::from_mins(1),
            sampling: None,
            elicitation: None,
            roots: Vec::new(),
        }
    }
}

/// What came of connecting to all servers of an agent.
#[derive(Debug, Default)]
pub struct Connected {
    /// Those that answered, in the order of the YAML.
    pub servers: Vec<McpServer>,
    /// Those that did not.
    pub failed: Vec<FailedServer>,
}

/// A server that did not answer.
#[derive(Debug)]
pub struct FailedServer {
    /// Which of the tools that were given.
    pub index: usize,
    /// As the YAML names it.
    pub name: String,
    /// Whether a run without it is pointless.
    pub need: ServerNeed,
    /// Why, without secrets.
    pub reason: String,
}

/// A connected server: a source of tools. When the last clone is dropped, its process is killed;
/// [`close`](Self::close) is more polite.
#[derive(Clone)]
pub struct McpServer {
    server: Arc<Server>,
    request_timeout: Duration,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// As the YAML names it.
    pub tool: String,
    /// As it names itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The revision of the protocol that is spoken, such as `2025-11-25`.
    pub protocol: String,
    /// Its process, if it is a child of ours.
    pub process: Option<u32>,
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The YAML does not say how.
    #[error("{0}")]
    Config(String),
    /// Its program can't be started.
    #[error("{0}")]
    Start(String),
    /// Its program ended.
    #[error("it ended ({exit}){}", said(stderr))]
    Ended {
        /// How.
        exit: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It does not speak the protocol.
    #[error("{reason}{}", said(stderr))]
    Handshake {
        /// What went wrong.
        reason: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It said nothing in time.
    #[error("no answer within {} s{}", after.as_secs_f64(), said(stderr))]
    TimedOut {
        /// The time.
        after: Duration,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!("\nstderr: {stderr}")
    }
}

impl McpServer {
    /// Connects to all servers at the same time.
    pub async fn connect_all(tools: &[&McpTool], options: &McpOptions) -> Connected {
        let surroundings = Surroundings {
            http: http_client(tools, options),
            startup: options.startup,
        };
        let mut taken = names::taken();
        let connecting: Vec<_> = tools
            .iter()
            .map(|tool| {
                connect(
                    tool,
                    names::server(&tool.name, &mut taken),
                    options,
                    &surroundings,
                )
            })
            .collect();
        let mut connected = Connected::default();
        for (index, (result, tool)) in join_all(connecting).await.into_iter().zip(tools).enumerate() {
            match result {
                Ok(server) => connected.servers.push(server),
                Err(reason) => connected.failed.push(FailedServer {
                    index,
                    name: tool.name.clone(),
                    need: ServerNeed::of(tool),
                    reason,
                }),
            }
        }
        connected
    }

    /// What it says of itself.
    pub fn info(&self) -> ServerInfo {
        self.server.info()
    }

    /// How long one request may take.
    pub fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Ends the session, closes the input of its process, and ends that if it does not end by itself.
    pub async fn close(&self) {
        self.server.close().await;
    }
}

/// One for all servers that are not children.
fn http_client(tools: &[&McpTool], options: &McpOptions) -> Result<HttpClient, String> {
    if tools.iter().all(|tool| tool.transport == McpTransport::Stdio) {
        return Err("no server needs one".to_owned());
    }
    let options = HttpOptions::from_variables(|name| options.env.get(name).map(str::to_owned));
    HttpClient::new(&options).map_err(|error| error.to_string())
}

async fn connect(
    tool: &McpTool,
    name: String,
    options: &McpOptions,
    surroundings: &Surroundings,
) -> Result<McpServer, String> {
    let plan = Plan::of(tool, &options.base_dir, &options.env).map_err(|error| error.to_string())?;
    let offer = Offer::of(tool, name);
    let asked = options.sampling.clone();
    let sampler = asked
        .filter(|_| tool.sampling == McpSampling::Allow)
        .map(Sampler::new);
    let server = Server::new(
        tool.name.clone(),
        plan,
        offer,
        options.clone(),
        Surroundings {
            startup: tool.written_time_limit().unwrap_or(surroundings.startup),
            ..surroundings.clone()
        },
        sampler,
    );
    server.start().await.map_err(|error| server.told(&error))?;
    Ok(McpServer {
        server,
        request_timeout: tool.time_limit(),
    })
}

impl ToolSource for McpServer {
    fn revision(&self) -> u64 {
        self.server.revision()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.server.tools()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer").field(&self.info()).finish()
    }
}

impl ServerInfo {
    pub(crate) fn of(tool: &str, peer: Option<&ServerPeerInfo>, process: Option<u32>) -> Self {
        let us = peer.and_then(|peer| peer.server_info.as_ref());
        Self {
            tool: tool.to_owned(),
            name: us.map(|us| us.name.clone()),
            version: us.map(|us| us.version.clone()),
            protocol: peer
                .map(|peer| peer.protocol_version.to_string())
                .unwrap_or_default(),
            process,
        }
    }
}
