//! The MCP servers of the YAML, as tools or in the format of the Claude CLI.

mod claude_servers;
mod client;
mod env_file;
mod launch;
mod login;
mod registry;

pub use claude_servers::ClaudeServers;
pub use client::{
    Connected, Elicitation, ElicitationAnswer, ElicitationHost, McpOptions, McpServer, SampledMessage,
    SamplingAnswer, SamplingHost, SamplingRequest,
};
pub use env_file::env_file_variables;
pub use login::{LoggedIn, LoggedOut, LoginError, LoginNews, LoginRequest, Logins, log_in, log_out};
pub use registry::{REGISTRY_URL, Registry, RegistryError, RegistryServer, Unusable};
