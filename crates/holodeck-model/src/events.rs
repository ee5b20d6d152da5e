//! The events of a run of an agent: thirteen types, one JSON object each.
//!
//! Readers preserve unknown data: an unknown type is [`EventBody::Unknown`], an unknown field is in
//! [`AgentEvent::extra`], and both are written back unchanged.

mod body;
mod event;
mod meta;
mod outcome;
mod schema;
mod stop;
mod words;

pub use body::{
    AgentMessage, ApprovalRequested, ApprovalResolved, Attachment, CitedFile, Complete, EventBody,
    EventClass, ForkOrigin, ReasoningBlock, RunError, RunTotals, SessionStart, TextChunk, Thinking,
    ToolResult, ToolUse, Usage, UserMessage,
};
pub use event::AgentEvent;
pub use meta::EventMeta;
pub use outcome::AgentExecutionResult;
pub use schema::event_schema;
pub use stop::StopFamily;
pub use words::{
    ApprovalScope, CompleteReason, Decision, IdSource, Interruption, PersistenceState, Priority, StopReason,
};
