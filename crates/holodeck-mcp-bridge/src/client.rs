//! MCP servers of the YAML as tools of ours. Types of rmcp stay in here.

mod connect;
mod connection;
mod content;
mod handler;
mod hosts;
mod listing;
mod plan;
mod server;
mod stdio;
mod tools;
mod watched;

pub use connect::{ConnectError, Connected, FailedServer, McpOptions, McpServer, ServerInfo};
pub use hosts::{
    Elicitation, ElicitationAnswer, ElicitationHost, SampledMessage, SamplingAnswer, SamplingHost,
    SamplingRequest,
};
