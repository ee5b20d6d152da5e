//! How servers are connected, and their descriptions of themselves.

use std::{path::PathBuf, sync::Arc, time::Duration};

use holodeck_backend_api::ElicitationHost;
use holodeck_model::Env;

use super::hosts::SamplingHost;
use crate::login::Logins;

/// Options for connecting to servers.
#[derive(Clone)]
pub struct McpOptions {
    /// Base of a server's relative paths if its file is unknown.
    pub base_dir: PathBuf,
    /// Source of a server's harmless variables, and of the `${NAME}`s in `env_file`.
    pub env: Env,
    /// Time limit to start and to list tools, unless the tool sets a limit for requests.
    pub startup: Duration,
    /// Samples for servers whose tool sets `sampling: allow`; without it, sampling is refused.
    pub sampling: Option<Arc<dyn SamplingHost>>,
    /// Answers questions for the person; without it, every question is declined.
    pub elicitation: Option<Arc<dyn ElicitationHost>>,
    /// The logins of the user; without them, no server gets a token that is not in the YAML.
    pub logins: Option<Logins>,
    /// The arguments of `holodeck mcp login NAME` that name the agent, with a leading space; empty for `agent.yaml`.
    pub login_arguments: String,
    /// Folders sent to servers as roots. Some servers grant access to them whatever the YAML allows.
    pub roots: Vec<PathBuf>,
}

impl McpOptions {
    /// One minute to start, no sampling, no answers, no logins and no roots.
    pub fn new(base_dir: impl Into<PathBuf>, env: Env) -> Self {
        Self {
            base_dir: base_dir.into(),
            env,
            startup: Duration::from_mins(1),
            sampling: None,
            elicitation: None,
            logins: None,
            login_arguments: String::new(),
            roots: Vec::new(),
        }
    }
}

/// A server's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name in the YAML.
    pub tool: String,
    /// Its own name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The revision of the protocol in use, such as `2025-11-25`.
    pub protocol: String,
    /// Its process, if it is a child process.
    pub process: Option<u32>,
}
