//! MCP servers of the YAML as tools. Types of rmcp stay in this module.

mod attentive;
mod connect;
mod connection;
mod content;
mod handler;
mod hosts;
mod http;
mod listing;
mod plan;
mod sampler;
mod server;
mod sse;
mod stdio;
mod tools;
mod watched;
mod words;

pub use connect::{ConnectError, Connected, FailedServer, McpOptions, McpServer, ServerInfo};
pub use hosts::{
    Elicitation, ElicitationAnswer, ElicitationHost, SampledMessage, SamplingAnswer, SamplingHost,
    SamplingRequest,
};
