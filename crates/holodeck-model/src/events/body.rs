//! The types of events in a session and the fields of each, as they are stored and sent.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value};

use super::{
    ApprovalScope, CompleteReason, Decision, IdSource, Interruption, Priority, StopReason, meta::milliseconds,
};
use crate::{CallDetails, TokenUsage};

/// How an event is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Content: stored, with a sequence number.
    Stored,
    /// Stored so that a client that reconnects receives it, without a sequence number.
    Durable,
    /// Kept while its run is active.
    Journaled,
}

macro_rules! bodies {
    ($($(#[doc = $doc:literal])* $variant:ident($type:ident) = $kind:literal $(| $stored:literal)?, $class:ident;)*) => {
        /// The content of an event, by type.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum EventBody {
            $($(#[doc = $doc])* $variant($type),)*
            /// A type unknown to this version; its fields are in [`AgentEvent::extra`](super::AgentEvent::extra).
            Unknown {
                /// The type.
                kind: String,
            },
        }

        /// The fields of a body, to be written into an object.
        pub(super) struct Fields<'a>(pub(super) &'a EventBody);

        impl Serialize for Fields<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    $(EventBody::$variant(body) => body.serialize(serializer),)*
                    EventBody::Unknown { .. } => serializer.serialize_map(Some(0))?.end(),
                }
            }
        }

        impl EventBody {
            /// The thirteen types, in the order of a run.
            pub const KINDS: &[&str] = &[$($kind,)*];

            /// The `type` in JSON.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    Self::Unknown { kind } => kind,
                }
            }

            /// How it is stored; `None` for an unknown type.
            pub fn class(&self) -> Option<EventClass> {
                match self {
                    $(Self::$variant(_) => Some(EventClass::$class),)*
                    Self::Unknown { .. } => None,
                }
            }

            /// Reads the fields of a type. Also accepts the stored type names of the older contract.
            pub(super) fn read(kind: String, fields: Map<String, Value>) -> serde_json::Result<Self> {
                Ok(match kind.as_str() {
                    $($kind $(| $stored)? => Self::$variant($type::deserialize(Value::Object(fields))?),)*
                    _ => Self::Unknown { kind },
                })
            }

            /// Each type with its meaning, how it is stored, and the schema of its fields.
            pub(super) fn schemas(
                generator: &mut SchemaGenerator,
            ) -> Vec<(&'static str, &'static str, EventClass, Schema)> {
                vec![$((
                    $kind,
                    concat!($($doc),*).trim_ascii(),
                    EventClass::$class,
                    $type::json_schema(generator),
                ),)*]
            }

            /// The fields other than those of [`EventMeta`](super::EventMeta).
            pub(super) fn fields(&self) -> serde_json::Result<Map<String, Value>> {
                let value = match self {
                    $(Self::$variant(body) => serde_json::to_value(body)?,)*
                    Self::Unknown { .. } => Value::Null,
                };
                Ok(match value {
                    Value::Object(fields) => fields,
                    _ => Map::new(),
                })
            }
        }
    };
}

bodies! {
    /// The session begins.
    SessionStart(SessionStart) = "session_start" | "session_started", Durable;
    /// The message of the user is stored.
    UserMessageConfirmed(UserMessage) = "user_message_confirmed" | "user_message_sent", Stored;
    /// A piece of reasoning.
    ThinkingChunk(TextChunk) = "thinking_chunk", Journaled;
    /// All reasoning of a turn, when it is complete.
    ThinkingComplete(TextChunk) = "thinking_complete", Journaled;
    /// The reasoning of a turn.
    Thinking(Thinking) = "thinking" | "agent_thinking_block", Stored;
    /// A piece of the answer.
    MessageChunk(TextChunk) = "message_chunk", Journaled;
    /// A model message.
    Message(AgentMessage) = "message" | "agent_message_sent", Stored;
    /// The model called a tool.
    ToolUse(ToolUse) = "tool_use" | "tool_use_requested", Stored;
    /// The tool answered.
    ToolResult(ToolResult) = "tool_result" | "tool_use_completed", Stored;
    /// A person is asked whether a call may run.
    ApprovalRequested(ApprovalRequested) = "approval_requested", Durable;
    /// The request for approval is resolved.
    ApprovalResolved(ApprovalResolved) = "approval_resolved" | "approval_completed", Durable;
    /// The run is over.
    Complete(Complete) = "complete" | "session_ended", Durable;
    /// The run failed.
    Error(RunError) = "error" | "error_occurred", Stored;
}

impl EventBody {
    /// Whether it must be the last event of its run.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Error(_))
    }
}

/// `session_start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionStart {
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The backend that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The origin of its first events, if they were copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
}

/// The end of the copied part of another session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    /// The session.
    pub session_id: String,
    /// The index of the last event that was copied.
    pub event_index: u64,
}

/// `user_message_confirmed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Its id.
    pub message_id: String,
    /// The text.
    pub content: String,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The client's own id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// The files that the model reads with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// A file that the model reads with a message, as it was when the message was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The file's id.
    pub id: String,
    /// SHA-256 of the content, in hexadecimal.
    pub hash: String,
    /// Its name.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// Its size in bytes.
    pub size: u64,
    /// Whether the model reads only the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How well it matches the message, from 0 to 1, if a search found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// A file that an answer names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CitedFile {
    /// The file's id.
    pub file_id: String,
    /// Its name.
    pub name: String,
}

/// `thinking_chunk`, `thinking_complete`, `message_chunk`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextChunk {
    /// The text.
    pub content: String,
    /// The block of the model message it belongs to.
    pub block_index: u32,
    /// The message, if its id is already known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// `thinking`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thinking {
    /// All reasoning of the turn.
    pub content: String,
    /// The message it belongs to.
    pub message_id: String,
    /// The provider's signature, when the turn reasoned in one block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the provider withholds the text of a block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The separate blocks, if there are several: a signature belongs to exactly one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<ReasoningBlock>,
}

/// A block of reasoning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningBlock {
    /// Its text.
    pub content: String,
    /// The provider's signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage {
    /// Its id.
    pub message_id: String,
    /// Always `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The provider's own stop reason, if it is not one of the six.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_stop_reason: Option<String>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the message is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Why it is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<Interruption>,
    /// The attached files that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<CitedFile>,
}

/// `tool_use`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolUse {
    /// The provider's id of the call.
    pub tool_use_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments.
    pub args: Value,
    /// Set when the id is not the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_source: Option<IdSource>,
    /// Fields of the model's message that go back to the provider with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_fields: Option<Value>,
}

/// `tool_result`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The id of the call.
    pub tool_use_id: String,
    /// The tool.
    pub tool_name: String,
    /// The result: a string or an object.
    pub result: Value,
    /// Whether the call succeeded.
    pub success: bool,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it ran, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Set if no tool answered: the run ended, and this event only closes the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// Whether the result was too long, and its end is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Further details of the call.
    #[serde(default, skip_serializing_if = "CallDetails::is_empty")]
    pub details: CallDetails,
}

/// `approval_requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    /// Its id.
    pub approval_id: String,
    /// The tool.
    pub tool_name: String,
    /// A description of the call.
    pub description: String,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The arguments it would run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// The paths that the call uses, links resolved, if not all of them are simply in the agent's folders. An approval that
    /// is remembered holds for them only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Not whether the call may run is asked, but for an object that matches this schema, as `modifiedArgs`: an MCP server
    /// asks the person during the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// Changes with the tool: its program, its settings and its schema. An approval that is remembered holds for it only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_digest: Option<String>,
    /// How long an approval may count; without it, any scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<ApprovalScope>>,
    /// How urgent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// When it is resolved automatically.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "deadline")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires_at: Option<Timestamp>,
}

/// `approval_resolved`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolved {
    /// The id of the request.
    pub approval_id: String,
    /// Whether the call may run.
    pub approved: bool,
    /// The decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The arguments that replace the original ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_args: Option<Value>,
    /// How long the approval counts; absent: for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ApprovalScope>,
}

/// `complete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Complete {
    /// How it ended.
    pub reason: CompleteReason,
    /// Why the last message ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The error, with [`CompleteReason::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Remarks for the person about the answer, such as that the oldest messages were left out of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether a part of the answer is missing or may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The attached files that the run's messages name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cited_files: Vec<CitedFile>,
    /// The tokens, cost and time of the run.
    #[serde(flatten)]
    pub totals: RunTotals,
}

/// `error`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// The error.
    pub error: String,
    /// The kind of error.
    #[serde(default)]
    pub code: String,
    /// Details of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether a retry may succeed.
    #[serde(default)]
    pub retryable: bool,
    /// The tokens, cost and time of the run.
    #[serde(flatten)]
    pub totals: RunTotals,
}

/// The tokens, cost and time of a run, reported at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunTotals {
    /// Tokens of all model calls; absent if none were reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Their cost as reported by the backend, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Model calls made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u32>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The model that answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The answer as an object, if the agent has a `response_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<Value>,
    /// The recorded latency of replayed model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_latency_ms: Option<u64>,
}

/// Token counts with the field names of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub completion_tokens: u64,
    /// The provider's total.
    pub total_tokens: u64,
    /// Prompt tokens that came from a cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens that were written to a cache.
    pub cache_creation_tokens: u64,
    /// Answer tokens spent on reasoning.
    pub reasoning_tokens: u64,
}

impl From<TokenUsage> for Usage {
    fn from(usage: TokenUsage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_creation_tokens: usage.cache_creation_tokens,
            reasoning_tokens: usage.reasoning_tokens,
        }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_creation_tokens: usage.cache_creation_tokens,
            reasoning_tokens: usage.reasoning_tokens,
        }
    }
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn deadline<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => milliseconds(time, serializer),
        None => serializer.serialize_none(),
    }
}
