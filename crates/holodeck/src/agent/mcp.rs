//! Connects to the MCP servers of the YAML and closes them after a run.
//!
//! Not for servers that the Claude CLI connects to itself.

use std::{collections::HashMap, sync::Arc};

use futures::future::join_all;
use holodeck_backend_api::{Explanation, ToolSource as _};
use holodeck_mcp_bridge::{McpOptions, McpServer};
use holodeck_model::{
    Location, McpServerRecord, McpTool, Occasion, Redactor, ServerNeed, ToolConfig, ToolNames,
};
use holodeck_tools::Toolbox;
use holodeck_yaml::LoadedAgent;

use crate::agent::{
    backends::BackendSelector,
    claude::has_own_client,
    logins::{login_arguments, logins},
    sampling::AgentModel,
};

/// The MCP servers of the YAML that HoloDeck connects to, and how.
pub(crate) struct McpSetup {
    servers: Vec<ServerSetup>,
    options: McpOptions,
}

/// A server and its place in the YAML.
struct ServerSetup {
    config: McpTool,
    at: Option<Location>,
}

impl McpSetup {
    /// The servers without a mock that `is_used` accepts and that the Claude CLI does not connect to itself.
    pub(crate) fn new(
        agent: &LoadedAgent,
        backends: &BackendSelector,
        occasion: Occasion,
        is_used: impl Fn(&str) -> bool,
    ) -> Self {
        let by_cli = agent.config.is_claude();
        let names = ToolNames::of(&agent.config);
        let is_own = |tool: &McpTool| {
            is_used(&tool.name) && (!by_cli || has_own_client(tool, occasion, &names, backends.env()))
        };
        let tools = agent.config.real_tools();
        let servers = tools.filter_map(|(index, tool)| match tool {
            ToolConfig::Mcp(tool) if is_own(tool) => Some(ServerSetup {
                config: tool.clone(),
                at: agent.locate(&format!("tools.{index}")),
            }),
            _ => None,
        });
        let servers = servers.collect();
        let mut options = McpOptions::new(&agent.dir, backends.env().clone());
        if let Some(model) = AgentModel::of(agent, backends) {
            options.sampling = Some(model);
        }
        options.logins = logins(backends.env());
        options.login_arguments = login_arguments(&agent.path);
        Self { servers, options }
    }

    /// The configurations of the servers.
    pub(crate) fn configs(&self) -> impl Iterator<Item = &McpTool> {
        self.servers.iter().map(|server| &server.config)
    }

    /// Keeps the servers that `is_needed` accepts, and makes them required.
    pub(crate) fn retain_needed(&mut self, is_needed: impl Fn(&McpTool) -> bool) {
        self.servers.retain(|server| is_needed(&server.config));
        for server in &mut self.servers {
            server.config.required = true;
        }
    }

    /// Connects to the servers. A failure is an error for a required server, else a warning.
    pub(crate) async fn connect(&self) -> Result<McpServers, Explanation> {
        if self.servers.is_empty() {
            return Ok(McpServers::default());
        }
        let configs: Vec<&McpTool> = self.configs().collect();
        let connected = McpServer::connect_all(&configs, &self.options).await;
        let mut errors = Vec::new();
        for failed in connected.failed {
            let place = self
                .servers
                .get(failed.index)
                .and_then(|server| server.at.as_ref());
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            let (name, reason) = (failed.name, failed.reason);
            match failed.need {
                ServerNeed::Required => {
                    errors.push(format!("{place}MCP server `{name}` can't be used: {reason}"));
                }
                ServerNeed::Optional => {
                    tracing::warn!(
                        "{place}MCP server `{name}` is left out because it can't be used: {reason}"
                    );
                }
            }
        }
        errors.extend(unusable(&connected.servers, &configs));
        for server in &connected.servers {
            let info = server.info();
            tracing::debug!(
                server = info.tool,
                protocol = info.protocol,
                name = info.name,
                version = info.version
            );
        }
        let servers = McpServers(connected.servers);
        if errors.is_empty() {
            Ok(servers)
        } else {
            servers.close().await;
            Err(errors.join("\n").into())
        }
    }
}

/// The connected MCP servers of an agent. Dropping them ends their processes; closing them ends their sessions first.
#[derive(Debug, Default)]
pub(crate) struct McpServers(Vec<McpServer>);

impl McpServers {
    /// Adds their tools.
    pub(crate) fn add_to(&self, toolbox: &mut Toolbox) {
        for server in &self.0 {
            toolbox.add_source(Arc::new(server.clone()), server.request_timeout());
        }
    }

    /// Those whose names `is_wanted` accepts.
    pub(crate) fn filtered(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let servers = self.0.iter().filter(|server| is_wanted(&server.info().tool));
        Self(servers.cloned().collect())
    }

    /// Their names in the YAML.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|server| server.info().tool).collect()
    }

    /// Their reports about themselves, for the run file.
    pub(crate) fn records(&self, redactor: &Redactor) -> Vec<McpServerRecord> {
        let infos = self.0.iter().map(McpServer::info);
        infos
            .map(|info| McpServerRecord {
                tool: info.tool,
                name: info.name.map(|name| redactor.text(&name).into_owned()),
                version: info.version.map(|version| redactor.text(&version).into_owned()),
                protocol: info.protocol,
            })
            .collect()
    }

    /// Ends their sessions and processes.
    pub(crate) async fn close(&self) {
        join_all(self.0.iter().map(McpServer::close)).await;
    }
}

/// Required servers without a tool, and tools of two servers with one name.
fn unusable(servers: &[McpServer], configs: &[&McpTool]) -> Vec<String> {
    let mut errors = Vec::new();
    let mut seen: HashMap<String, String> = HashMap::new();
    for server in servers {
        let name = server.info().tool;
        let tools = server.tools();
        if tools.is_empty() {
            let is_required = configs
                .iter()
                .any(|config| config.name == name && config.need() == ServerNeed::Required);
            let problem = format!("MCP server `{name}` is connected, but none of its tools is offered");
            if is_required {
                errors.push(format!(
                    "{problem}; check that it lists tools and that `allowed_tools` names one, or set `required: false`"
                ));
            } else {
                tracing::warn!("{problem}");
            }
        }
        for tool in tools {
            let shown = tool.spec().name.clone();
            if let Some(other) = seen.insert(shown.clone(), name.clone())
                && other != name
            {
                errors.push(format!(
                    "MCP servers `{other}` and `{name}` both have a tool with the name `{shown}`; rename a server, as `__` \
                     separates the name of a server from that of its tool"
                ));
            }
        }
    }
    errors
}
