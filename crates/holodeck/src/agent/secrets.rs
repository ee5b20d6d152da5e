//! The secrets that HoloDeck reads for an agent, by the place they are read from. One list: what is read as a secret
//! anywhere is masked everywhere.

use std::sync::Arc;

use holodeck_http::ProxyOptions;
use holodeck_mcp_bridge::env_file_variables;
use holodeck_model::{
    Env, McpTool, Provider, Redactor, ResolvedAgent, ServeAuth, ToolConfig,
    env::{
        ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, AZURE_OPENAI_API_KEY, HOLODECK_EVENTS_URL,
        HOLODECK_MCP_REGISTRY_URL, HOLODECK_TOKEN, OPENAI_API_KEY, OPENAI_BASE_URL,
    },
    variable_secrets,
};
use holodeck_validators::ClaudeEnv;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    agent::{environment::name_unmasked_of_shell, inventory::Inventory, logins::logins},
    commands::routed::delegates,
};

/// A place that secrets are read from. Code that reads one from another place needs a new entry here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretSource {
    /// The agent's files, with the variables in them.
    Files,
    /// The variables with the keys of models.
    ModelKeys,
    /// The variables that the Claude CLI signs in with.
    ClaudeCredentials,
    /// The headers of telemetry.
    TelemetryHeaders,
    /// The `env_file` of an MCP server.
    EnvFiles,
    /// The logins to MCP servers.
    Logins,
    /// The tokens of the clients of `holodeck serve`.
    ClientTokens,
    /// The address of the database with the conversations.
    EventsDatabase,
    /// The addresses of models and of the MCP registry.
    Addresses,
    /// The addresses of proxies.
    Proxies,
    /// The other agents of the process.
    OtherAgents,
}

impl SecretSource {
    const ALL: [Self; 11] = [
        Self::Files,
        Self::ModelKeys,
        Self::ClaudeCredentials,
        Self::TelemetryHeaders,
        Self::EnvFiles,
        Self::Logins,
        Self::ClientTokens,
        Self::EventsDatabase,
        Self::Addresses,
        Self::Proxies,
        Self::OtherAgents,
    ];

    fn read(self, agent: &ResolvedAgent, env: &Env) -> Vec<String> {
        let exposed = |secret: &SecretString| secret.expose_secret().to_owned();
        let value = |name: &str| env.non_blank(name).map(str::to_owned);
        let of_url = |name: &str| {
            let value = env.non_blank(name).unwrap_or_default();
            variable_secrets(name, value)
        };
        match self {
            Self::Files => agent.secrets.iter().map(exposed).collect(),
            Self::ModelKeys => {
                let names = [OPENAI_API_KEY, AZURE_OPENAI_API_KEY, ANTHROPIC_API_KEY];
                names.into_iter().filter_map(value).collect()
            }
            Self::ClaudeCredentials => claude_credentials(agent, env),
            Self::TelemetryHeaders => holodeck_otel_bridge::header_secrets(env),
            Self::EnvFiles => {
                let variables = servers(agent).flat_map(|server| env_file_variables(server, env));
                variables
                    .flat_map(|(name, value)| variable_secrets(&name, value.expose_secret()))
                    .collect()
            }
            Self::Logins => {
                let logins = logins(env);
                let urls = servers(agent).filter_map(|server| server.url.as_ref());
                urls.flat_map(|url| {
                    logins
                        .as_ref()
                        .map(|logins| logins.secrets(url))
                        .unwrap_or_default()
                })
                .map(|token| exposed(&token))
                .collect()
            }
            Self::ClientTokens => {
                let auth = agent.config.serve.as_ref().and_then(|serve| serve.auth.as_ref());
                let named = auth.into_iter().flat_map(ServeAuth::token_variables);
                let names = named.map(|(_, variable)| variable).chain([HOLODECK_TOKEN]);
                // A token is compared without the space around it.
                names
                    .filter_map(|name| Some(value(name)?.trim().to_owned()))
                    .collect()
            }
            Self::EventsDatabase => {
                let named = agent.config.events.as_ref().map(|events| &*events.url_env);
                let names = named.into_iter().chain([HOLODECK_EVENTS_URL]);
                // The redactor finds the password in it, also in one that is no URL.
                names.filter_map(value).collect()
            }
            Self::Addresses => {
                let names = [OPENAI_BASE_URL, ANTHROPIC_BASE_URL, HOLODECK_MCP_REGISTRY_URL];
                names.into_iter().flat_map(of_url).collect()
            }
            Self::Proxies => {
                let proxies = ProxyOptions::from_variables(|name| env.get(name).map(str::to_owned));
                let urls = [proxies.http, proxies.https].into_iter().flatten();
                urls.map(|url| exposed(&url)).collect()
            }
            Self::OtherAgents => env.secrets().to_vec(),
        }
    }
}

/// Masks what the texts of an agent must not show: the secrets that are read for it and for the agents to which it
/// delegates.
pub fn redactor(agent: &ResolvedAgent, env: &Env) -> Arc<Redactor> {
    let secrets = secrets(agent, env);
    name_unmasked_of_shell(env, &secrets);
    Arc::new(Redactor::new(secrets))
}

/// The environment of agents that share a process: each of them masks the secrets of all.
pub fn shared_environment<'a>(agents: impl IntoIterator<Item = &'a ResolvedAgent>, env: &Env) -> Env {
    let mut shared = env.clone();
    for agent in agents {
        shared.add_secrets(secrets(agent, env));
    }
    shared
}

/// The secrets that are read for an agent and for the agents to which it delegates.
pub(crate) fn secrets(agent: &ResolvedAgent, env: &Env) -> Vec<String> {
    let delegates = delegates(agent, env);
    let agents = std::iter::once(agent).chain(delegates.iter().map(|delegate| &**delegate));
    let read = agents.flat_map(|agent| {
        SecretSource::ALL
            .into_iter()
            .flat_map(|source| source.read(agent, env))
    });
    read.collect()
}

fn servers(agent: &ResolvedAgent) -> impl Iterator<Item = &McpTool> {
    agent.config.tools.iter().filter_map(|tool| match tool {
        ToolConfig::Mcp(tool) => Some(tool),
        _ => None,
    })
}

fn claude_credentials(agent: &ResolvedAgent, env: &Env) -> Vec<String> {
    let inventory = Inventory::new(agent, None);
    let models = inventory.models().iter().map(|used| &used.config);
    let of_claude = models.filter(|model| model.provider == Provider::Anthropic);
    let of_claude = of_claude.filter_map(|model| ClaudeEnv::for_model(model, env).ok());
    let credentials = of_claude.flat_map(|claude| {
        let secrets = claude.secret_names.iter().filter_map(|name| claude.get(name));
        secrets
            .map(|secret| secret.expose_secret().to_owned())
            .collect::<Vec<_>>()
    });
    credentials.collect()
}

#[cfg(test)]
mod tests;
