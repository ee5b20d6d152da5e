//! Checks that need the world, before anything starts: credentials, endpoint, programs, files.
//!
//! `holodeck validate` looks at the YAML; what is checked here changes without the YAML changing. Each check tells
//! what it looked at and, when something is missing, a `Diagnostic` that says what to do.

mod agent;
mod check;
mod claude;
mod claude_cli;
mod claude_env;
mod credentials;
mod embeddings;
mod endpoint;
mod files;
mod node;
mod programs;
mod schemas;

pub use agent::check_agent;
pub use check::{Check, CheckState};
pub use claude_cli::{ClaudeCli, ClaudeCliKind, ClaudeCliSearch, CliVersion};
pub use claude_env::ClaudeEnv;
pub use schemas::check_schemas;
