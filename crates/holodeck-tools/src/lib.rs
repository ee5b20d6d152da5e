//! The tools that an agent's YAML declares, ready to be called.
//!
//! A tool that ran and failed returns an output with `is_error`, and the agent continues. A tool that could not be run
//! at all (program or file missing, a panic) is a [`ToolError`](holodeck_backend_api::ToolError), which ends the turn.

mod arguments;
mod entry;
mod error;
mod filter;
mod function;
mod grader;
mod hooks;
mod mock;
mod program;
mod prompt;
mod python;
mod retrieval;
mod retrieval_spec;
mod source;
mod toolbox;

pub use entry::MAX_OUTPUT_BYTES;
pub use error::SetupError;
pub use filter::ToolSearch;
pub use function::FunctionTool;
pub use grader::CodeGraders;
pub use hooks::Hooks;
pub use mock::MockTool;
pub use prompt::{PromptModel, PromptProblem, PromptTool};
pub use retrieval::{Search, SearchOutput, SearchTool, render_documents};
pub use retrieval_spec::retrieval_spec;
pub use toolbox::Toolbox;
