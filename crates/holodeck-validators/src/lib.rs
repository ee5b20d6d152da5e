//! Checks that need the machine, before anything starts: credentials, programs, files.
//!
//! `holodeck validate` checks the YAML; the results here can change while the YAML does not. Each check reports what it
//! found and, if something is missing, a `Diagnostic` with the remedy.

mod agent;
mod answer_format;
mod check;
mod claude;
mod claude_cli;
mod claude_env;
mod credentials;
mod files;
mod node;
mod programs;
mod schemas;

pub use agent::check_agent;
pub use answer_format::SchemaFormat;
pub use check::{Check, CheckState, unless_replayed};
pub use claude_cli::{ClaudeCli, ClaudeCliKind, ClaudeCliSearch};
pub use claude_env::ClaudeEnv;
pub use credentials::{check_key, check_own_key};
pub use schemas::check_schemas;
