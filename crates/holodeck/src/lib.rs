//! The facade: where other Rust projects start.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//!
//! let env = holodeck::environment(Path::new("agent.yaml"))?;
//! let load = holodeck::load(Path::new("agent.yaml"), &env);
//! let agent = load.agent.ok_or("the agent has errors")?;
//! let answer = holodeck::ask(agent, &env, "What is your refund policy?", |_event| {}).await?;
//! println!("{}", answer.response);
//! # Ok(())
//! # }
//! ```
//!
//! The only crate besides the CLI that knows the concrete backends and reads the process environment.

mod answers;
mod approvals;
mod ask;
mod asker;
mod backends;
mod claude;
mod conversion;
mod dry_run;
mod environment;
mod git;
pub mod index;
mod inputs;
mod load;
mod mcp;
mod prompts;
mod sampling;
mod seen;
mod servers;
mod telemetry;
mod test;
mod unsupported;

pub use answers::{AnswerError, AnswerSource, Answers, redactor};
pub use approvals::{PolicyApprover, approval_policy};
pub use ask::{AskError, ask, ask_showing};
pub use backends::{BackendSelector, ToolSetupError};
pub use conversion::convert_documents_with;
pub use dry_run::{DryRun, Estimate};
pub use environment::{EnvironmentError, environment};
pub use holodeck_backend_api as backend_api;
pub use holodeck_cassette::CassetteError;
pub use holodeck_documents as documents;
pub use holodeck_mcp_bridge::{Registry, RegistryError, RegistryServer, Unusable};
pub use holodeck_model as model;
pub use holodeck_runner as runner;
pub use holodeck_validators::{Check, CheckState};
pub use inputs::{RunInputs, is_recording};
pub use load::{doctor, load};
pub use servers::{ListedServer, ServerFile, ServerScope, ServersError, list_servers, registry};
pub use test::{
    PrepareError, PreparedTest, Preparing, TestError, TestOptions, prepare_regrade, prepare_test,
};
pub use unsupported::Unbuilt;
