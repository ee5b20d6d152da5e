//! MCP both ways: the servers of the YAML as tools of ours, or in the form that the Claude CLI reads; and our tools as a
//! server for its control channel.

mod claude_servers;
mod client;
mod env_file;
mod in_process;
mod launch;
mod registry;
mod reply;

pub use claude_servers::{ClaudeServer, ClaudeServers, ServerNeed};
pub use client::{
    ConnectError, Connected, Elicitation, ElicitationAnswer, ElicitationHost, FailedServer, McpOptions,
    McpServer, SampledMessage, SamplingAnswer, SamplingHost, SamplingRequest, ServerInfo,
};
pub use env_file::env_file_variables;
pub use in_process::{FailedCall, InProcessServer, Reply, ServerError, cancelled_request};
pub use registry::{REGISTRY_URL, Registry, RegistryError, RegistryServer, ServerForm, Unusable};
