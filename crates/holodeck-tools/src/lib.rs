//! The tools an agent's YAML declares, ready to be called.
//!
//! A tool that ran and failed answers with `is_error`, and the agent goes on. A tool that could not be run at all
//! (program or file missing, a panic) is a [`ToolError`](holodeck_backend_api::ToolError), which ends the turn.

mod arguments;
mod bm25;
mod error;
mod filter;
mod function;
mod mock;
mod program;
mod prompt;
mod python;
mod retrieval;
mod retrieval_spec;
mod source;
mod toolbox;

pub use error::SetupError;
pub use filter::ToolSearch;
pub use function::FunctionTool;
pub use mock::MockTool;
pub use prompt::{PromptModel, PromptProblem, PromptTool};
pub use retrieval::{Found, Search, SearchTool, render_documents};
pub use retrieval_spec::retrieval_spec;
pub use toolbox::{MAX_OUTPUT_BYTES, Toolbox};
