#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! `framing` splits the output into lines, `wire` parses them, and `translate` converts the frames of a turn into
//! [`BackendEvent`](holodeck_backend_api::BackendEvent)s; these three are pure. `call_paths` finds the files that a call
//! names. `argv` and `home` prepare the start of
//! the CLI, `connection` runs it, `control` sends it requests, and `host` answers its requests; both give a turn its
//! `incoming`. `turn` runs one turn;
//! `pool`, `session` and `backend` build the public API on it. `in_process` offers the agent's own tools to the CLI, as
//! an MCP server over the control channel.

mod argv;
mod backend;
mod call_paths;
mod connection;
mod control;
mod core;
mod framing;
mod history;
mod home;
mod host;
mod in_process;
mod incoming;
mod options;
mod pool;
mod replay;
mod reply;
mod session;
mod stored;
mod subagents;
mod tool;
mod translate;
mod turn;
mod wire;

#[cfg(test)]
mod recording;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_model as model, secrecy::SecretString};

pub use backend::{ClaudeBackend, query};
#[doc(no_inline)]
pub use holodeck_backend_api::{
    AgentBackend, AgentSession, Approver, BackendError, BackendEvent, ExecutionResult, ToolCx, ToolHost,
    ToolOutput, TurnRequest,
};
pub use holodeck_model::{CliVersion, ServerNeed};
pub use options::{ClaudeOptions, Edits, Limits, McpServer, McpServers, Reuse, ThinkingOff, Worktrees};
#[doc(hidden)]
pub use replay::{Replay, replay};
pub use tool::Tools;
