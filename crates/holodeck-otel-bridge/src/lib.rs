//! OpenTelemetry: implements an agent's `observability` block.
//!
//! [`claude_env`] translates it for the Claude CLI, which exports its own telemetry. [`Telemetry`] exports HoloDeck's:
//! [`Telemetry::wrap`] turns the events of any backend into spans and metrics, and [`Telemetry::evaluated`] adds the
//! results of evaluations. [`check`] reports settings without effect before a run.

mod attempts;
mod check;
mod claude_env;
mod collector;
mod console;
mod content;
mod conventions;
mod evaluation;
mod export;
mod grpc;
mod level;
mod meters;
mod options;
mod providers;
mod retry_info;
mod running;
mod telemetry;
mod traced;
mod turn;
mod unmapped;
mod variables;
mod wire;

pub use check::check;
pub use claude_env::{CLAUDE_SECRET_VARIABLES, ClaudeTelemetry, claude_env};
pub use evaluation::Evaluation;
pub use options::{ConsoleWriter, TelemetryOptions};
pub use telemetry::Telemetry;
pub use variables::{header_secrets, with_variables};
