//! OpenTelemetry: what an agent's `observability` block asks for.

mod claude_env;
mod collector;
mod unmapped;

pub use claude_env::{CLAUDE_SECRET_VARIABLES, ClaudeTelemetry, claude_env};
