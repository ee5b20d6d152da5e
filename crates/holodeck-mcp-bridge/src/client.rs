//! MCP servers of the YAML as tools. Types of rmcp stay in this module.

mod attentive;
mod caller;
mod calls;
mod connect;
mod content;
mod error;
mod hosts;
mod http;
mod mend;
mod options;
mod plan;
mod reader;
mod sampler;
mod server;
mod sse;
mod stdio;
mod watched;
mod websocket;
mod words;

use error::ConnectError;
use options::ServerInfo;

pub use connect::{Connected, McpServer};
pub use holodeck_backend_api::{Elicitation, ElicitationAnswer, ElicitationHost};
pub use hosts::{SampledMessage, SamplingAnswer, SamplingHost, SamplingRequest};
pub use options::McpOptions;
