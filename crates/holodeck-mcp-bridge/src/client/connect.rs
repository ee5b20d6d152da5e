//! Connects to all servers of an agent at the same time and reports those that failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use holodeck_backend_api::{Tool, ToolSource};
use holodeck_http::HttpClient;
use holodeck_model::{McpSampling, McpTool, McpTransport, ServerNeed, reserved_server_keys, server_key};
use rmcp::model::ServerPeerInfo;

use crate::client::options::{McpOptions, ServerInfo};
use crate::client::plan::{Plan, client_of};
use crate::client::reader::Reported;
use crate::client::sampler::Sampler;
use crate::client::server::Server;
use crate::client::server::connection::Surroundings;
use crate::client::server::listing::Offer;

/// The result of connecting to all servers of an agent.
#[derive(Debug, Default)]
pub struct Connected {
    /// Connected servers, in the order of the YAML.
    pub servers: Vec<McpServer>,
    /// Failed servers.
    pub failed: Vec<FailedServer>,
}

/// A server that could not be connected.
#[derive(Debug)]
pub struct FailedServer {
    /// Index of its tool in the input.
    pub index: usize,
    /// Its name in the YAML.
    pub name: String,
    /// Whether the run must fail without it.
    pub need: ServerNeed,
    /// The reason, without secrets.
    pub reason: String,
}

/// A connected server: a source of tools. Dropping the last clone kills its process; [`close`](Self::close) ends it
/// gracefully.
#[derive(Clone)]
pub struct McpServer {
    /// A trait object, which is fast to compile (see `ARCHITECTURE.md`).
    server: Arc<dyn AsRef<Server> + Send + Sync>,
    request_timeout: Duration,
}

impl McpServer {
    /// Connects to all servers concurrently.
    pub fn connect_all<'a>(tools: &'a [&McpTool], options: &'a McpOptions) -> BoxFuture<'a, Connected> {
        Box::pin(Self::connect_all_unboxed(tools, options))
    }

    async fn connect_all_unboxed(tools: &[&McpTool], options: &McpOptions) -> Connected {
        let surroundings = Surroundings {
            http: http_client(tools, options),
            startup: options.startup,
            request: options.startup,
            reported: Reported::default(),
        };
        let mut taken = reserved_server_keys();
        let connecting: Vec<_> = tools
            .iter()
            .map(|tool| connect(tool, server_key(&tool.name, &mut taken), options, &surroundings))
            .collect();
        let mut connected = Connected::default();
        for (index, (result, tool)) in join_all(connecting).await.into_iter().zip(tools).enumerate() {
            match result {
                Ok(server) => connected.servers.push(server),
                Err(reason) => connected.failed.push(FailedServer {
                    index,
                    name: tool.name.clone(),
                    need: tool.need(),
                    reason,
                }),
            }
        }
        connected
    }

    /// Its description of itself.
    pub fn info(&self) -> ServerInfo {
        self.server().info()
    }

    /// Time limit of one request.
    pub fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Ends the session, closes the input of its process, and kills the process if it does not exit.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.server().close())
    }

    fn server(&self) -> &Server {
        (*self.server).as_ref()
    }
}

/// Shared by all servers that are not child processes.
fn http_client(tools: &[&McpTool], options: &McpOptions) -> Result<HttpClient, String> {
    if tools.iter().all(|tool| tool.transport == McpTransport::Stdio) {
        return Err("no server needs one".to_owned());
    }
    client_of(|name| options.env.get(name))
}

async fn connect(
    tool: &McpTool,
    name: String,
    options: &McpOptions,
    surroundings: &Surroundings,
) -> Result<McpServer, String> {
    let plan = Plan::of(tool, options).map_err(|error| error.to_string())?;
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
            startup: tool.configured_time_limit().unwrap_or(surroundings.startup),
            request: tool.time_limit(),
            ..surroundings.clone()
        },
        sampler,
    );
    server
        .start()
        .await
        .map_err(|error| server.redacted_error(&error))?;
    Ok(McpServer {
        server,
        request_timeout: tool.time_limit(),
    })
}

impl ToolSource for McpServer {
    fn revision(&self) -> u64 {
        self.server().revision()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.server().tools()
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
            name: us.map(|us| us.name.clone()).filter(|name| !name.is_empty()),
            version: us
                .map(|us| us.version.clone())
                .filter(|version| !version.is_empty()),
            protocol: peer
                .map(|peer| peer.protocol_version.to_string())
                .unwrap_or_default(),
            process,
        }
    }
}
