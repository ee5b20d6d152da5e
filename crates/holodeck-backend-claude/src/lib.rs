#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! `framing` cuts the lines, `wire` gives them types, and `translate` turns one turn of them into
//! [`BackendEvent`](holodeck_backend_api::BackendEvent)s: these three are pure. `argv` and `home` say how the CLI is
//! started, `connection` runs it, `control` and `host` ask and answer, `turn` puts a turn together, and `pool`, `session`
//! and `backend` are what others see of it. `agent` reads an agent's YAML.

mod agent;
mod argv;
mod backend;
mod connection;
mod control;
mod core;
mod framing;
mod history;
mod home;
mod host;
mod options;
mod pool;
mod replay;
mod session;
mod tool;
mod translate;
mod turn;
mod wire;

#[cfg(test)]
mod recording;

pub use agent::{AgentSetup, BuiltinChanges};
pub use backend::{ClaudeBackend, query};
pub use holodeck_mcp_bridge::ServerNeed;
pub use holodeck_validators::{ClaudeCli, ClaudeCliSearch, CliVersion};
pub use options::{ClaudeOptions, Edits, Limits, McpServer, McpServers, Reuse, Thinking};
#[doc(hidden)]
pub use replay::{Replay, replay};
pub use tool::Tools;
