//! Agents on any endpoint that implements OpenAI's Chat Completions: OpenAI, Azure, Ollama and compatible servers.
//!
//! [`OpenAiBackend`] runs the loop of model and tool calls. It reaches the model through
//! [`ModelCalls`](holodeck_backend_api::ModelCalls): [`HttpModelCalls`] calls the endpoint, and a recorder or replayer
//! can be placed between the two.

mod answer_format;
mod approvals;
mod assemble;
mod backend;
mod core;
mod dialect;
mod driver;
mod endpoint;
mod failure;
mod json;
mod message;
mod number_odds;
mod parameters;
mod questions;
mod session;
mod tool_calls;
mod turn;
mod wire;
mod wire_message;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_http as http, holodeck_model as model};

pub use backend::OpenAiBackend;
pub use driver::{DriverOptions, HttpModelCalls};
pub use endpoint::Endpoint;
