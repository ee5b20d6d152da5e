//! The contract between the engines that run agents and the backends that implement them.
//!
//! Backends produce a stream of [`BackendEvent`]s; [`ResultFold`] turns such a stream into an
//! [`ExecutionResult`]. Engines (runner, chat, serve) receive an `Arc<dyn BackendFactory>` and never name a
//! concrete backend. Types and traits only: no I/O, no runtime, no policy.

mod adaptations;
mod answer_format;
mod approval;
mod backend;
mod conversation;
mod elicitation;
mod error;
mod event;
mod event_stream;
mod fold;
mod history;
mod image;
mod model_calls;
mod number_odds;
mod redacted;
mod request_body;
mod result;
mod session;
mod similarity;
mod spending;
mod tool;
mod turn_request;

pub use adaptations::Adaptations;
pub use answer_format::AnswerFormat;
pub use approval::{Approval, ApprovalAsk, ApprovalBasis, ApprovalDecision, Approver, DecidedBy, Ruling};
pub use backend::{AgentBackend, BackendFactory};
pub use conversation::Conversation;
pub use elicitation::{Elicitation, ElicitationAnswer, ElicitationHost};
pub use error::{BackendError, Explanation, UNFIT_ANSWER};
pub use event::BackendEvent;
pub use event_stream::EventStream;
pub use fold::{FailedTurn, ResultFold, collect};
pub use history::{HistoryFold, HistoryItem, Opening, Role, SessionHandle};
pub use holodeck_model::{
    Adaptation, AskReason, CallDetails, CallPath, CallRefusal, Occasion, Passage, PathAccess, SideEffects,
    TokenUsage, ToolIdentity, ToolKind, ToolNames, Zone,
    events::{StopFamily, StopReason},
};
pub use image::Image;
pub use model_calls::{ModelCalls, ModelDelta, ModelRequest, ModelStream, RecordedCall};
pub use number_odds::NumberOdds;
pub use redacted::Redactions;
pub use request_body::{RequestBody, ToolDefinitions};
pub use result::{ExecutionResult, MAX_TOOL_CALLS, Outcome, ProviderFields, ToolCall, ToolResult};
pub use session::{AgentSession, SessionControl, SessionCore, SessionState, TextStream};
pub use similarity::{Compared, TextSimilarity};
pub use spending::{Spending, ToolUsage, total_usage};
pub use tool::{
    NoTools, RequestPlace, Tool, ToolCx, ToolError, ToolFilter, ToolHost, ToolOutput, ToolSource, ToolSpec,
};
pub use turn_request::{AnswerWishes, Thinking, TurnRequest};
