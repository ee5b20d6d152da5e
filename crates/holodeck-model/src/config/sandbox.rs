//! The sandbox of the shell: the CLI's own settings, in the spelling of this file.
//!
//! They are typed, because a CLI drops all of its settings if one of them is not valid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::PathRef;

/// The sandbox in which the CLI runs commands of the shell. An agent whose sandbox cannot be set up does not start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Whether commands run in the sandbox.
    pub enabled: bool,
    /// Whether the model may ask to run a command outside of it; the call needs approval.
    pub allow_unsandboxed_commands: bool,
    /// Commands that run outside of it, as in `docker *`.
    pub excluded_commands: Vec<String>,
    /// Files that commands may use.
    pub filesystem: Option<SandboxFilesConfig>,
    /// Hosts that commands may reach.
    pub network: Option<SandboxNetworkConfig>,
    /// Whether the host's `/proc` stays readable, for containers that cannot hide it. Less secure.
    pub enable_weaker_nested_sandbox: bool,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            allow_unsandboxed_commands: false,
            excluded_commands: Vec::new(),
            filesystem: None,
            network: None,
            enable_weaker_nested_sandbox: false,
        }
    }
}

/// Files that commands in the sandbox may use, beside the working directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxFilesConfig {
    /// Places that they may change.
    pub allow_write: Vec<PathRef>,
    /// Places that they must not change.
    pub deny_write: Vec<PathRef>,
    /// Places that they must not read.
    pub deny_read: Vec<PathRef>,
    /// Places below `deny_read` that they may read.
    pub allow_read: Vec<PathRef>,
}

/// Hosts that commands in the sandbox may reach.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxNetworkConfig {
    /// Hosts that they may reach, as in `*.example.com`.
    pub allowed_domains: Vec<String>,
    /// Hosts that they must not reach.
    pub denied_domains: Vec<String>,
    /// Whether they may use every Unix socket.
    pub allow_all_unix_sockets: bool,
    /// Whether they may listen on local ports. Only on macOS.
    pub allow_local_binding: bool,
}
