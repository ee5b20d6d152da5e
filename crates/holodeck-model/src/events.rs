//! The events a run of an agent is recorded as: thirteen types, one JSON object each.
//!
//! Readers keep what they do not know: an unknown type is [`EventBody::Unknown`], an unknown field is in
//! [`AgentEvent::extra`], and both are written again as they came.

mod body;
mod event;
mod meta;
mod outcome;
mod words;

pub use body::{
    AgentMessage, ApprovalRequested, ApprovalResolved, Complete, EventBody, EventClass, ReasoningBlock,
    RunError, RunTotals, SessionStart, Thinking, ToolResult, ToolUse, Usage, UserMessage, WrittenChunk,
};
pub use event::AgentEvent;
pub use meta::EventMeta;
pub use outcome::AgentExecutionResult;
pub use words::{CompleteReason, Decision, IdSource, Interruption, PersistenceState, Priority, StopReason};
