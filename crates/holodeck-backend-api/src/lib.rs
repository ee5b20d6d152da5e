//! The contract between everything that runs agents and everything that is one.
//!
//! Backends produce a stream of [`BackendEvent`]s; [`ResultFold`] turns such a stream into the one
//! [`ExecutionResult`]. Engines (runner, chat, serve) receive an `Arc<dyn BackendFactory>` and never name a
//! concrete backend. Types and traits only: no I/O, no runtime, no policy.

mod approval;
mod backend;
mod conversation;
mod error;
mod event;
mod fold;
mod image;
mod model_calls;
mod result;
mod session;
mod spending;
mod tool;

pub use approval::{Approval, ApprovalAsk, ApprovalDecision, Approver, DecidedBy};
pub use backend::{
    AgentBackend, BackendFactory, Capabilities, ContextMessage, EventStream, Role, TurnRequest,
};
pub use conversation::Conversation;
pub use error::BackendError;
pub use event::BackendEvent;
pub use fold::{FailedTurn, ResultFold, collect};
pub use holodeck_model::{Occasion, TokenUsage, events::StopReason};
pub use image::Image;
pub use model_calls::{ModelCalls, ModelDelta, ModelRequest, ModelStream, RecordedCall};
pub use result::{ExecutionResult, MAX_TOOL_CALLS, Outcome, ToolCall, ToolResult};
pub use session::{AgentSession, SessionControl, SessionCore, SessionState, TextStream};
pub use spending::{Spending, ToolUsage, total_usage};
pub use tool::{
    NoTools, SideEffects, Tool, ToolCx, ToolError, ToolFilter, ToolHost, ToolOutput, ToolSource, ToolSpec,
};
