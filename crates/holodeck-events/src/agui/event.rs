//! The types of AG-UI events that runs are translated to.

use std::collections::BTreeMap;

use holodeck_model::events::{RunTotals, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// An event of AG-UI.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgUiEvent {
    /// Its content.
    #[serde(flatten)]
    pub body: AgUiBody,
    /// When the event behind it was recorded, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// The nested agent it is about; absent for the run's own agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<String>,
    /// Under the key `holodeck`: what AG-UI has no field for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<AgUiMetadata>,
}

/// The `metadata` of AG-UI, with the key `holodeck`.
pub type AgUiMetadata = BTreeMap<&'static str, Value>;

pub(super) fn metadata(own: Value) -> AgUiMetadata {
    BTreeMap::from([("holodeck", own)])
}

/// The types of AG-UI 1.0 that runs become. The contract has others for state, activities, steps and shorthands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are those of the contract")]
pub enum AgUiBody {
    /// The first event of a run.
    RunStarted {
        thread_id: String,
        run_id: String,
        protocol_version: &'static str,
    },
    /// The last event of a run that did not fail.
    RunFinished {
        thread_id: String,
        run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        outcome: AgUiOutcome,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<AgUiUsage>,
    },
    /// The last event of a run that failed.
    RunError {
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<AgUiUsage>,
    },
    /// A message of the agent begins, or continues if its id is known.
    TextMessageStart { message_id: String, role: &'static str },
    /// A piece of its text, never empty.
    TextMessageContent { message_id: String, delta: String },
    /// It ends.
    TextMessageEnd { message_id: String },
    /// Reasoning begins.
    ReasoningStart { message_id: String },
    /// A message of reasoning begins, or continues if its id is known.
    ReasoningMessageStart { message_id: String, role: &'static str },
    /// A piece of its text, never empty.
    ReasoningMessageContent { message_id: String, delta: String },
    /// It ends.
    ReasoningMessageEnd { message_id: String },
    /// Reasoning ends.
    ReasoningEnd { message_id: String },
    /// A tool call begins.
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        parent_message_id: String,
    },
    /// Its arguments as JSON.
    ToolCallArgs { tool_call_id: String, delta: String },
    /// Its arguments are complete.
    ToolCallEnd { tool_call_id: String },
    /// The tool answered.
    ToolCallResult {
        message_id: String,
        tool_call_id: String,
        content: String,
        role: &'static str,
    },
    /// A nested agent begins, or continues after an interrupt.
    SubagentStarted {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<String>,
        parent_tool_call_id: String,
    },
    /// A nested agent ends, or is suspended.
    SubagentFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<AgUiSubagentOutcome>,
    },
    /// A nested agent failed.
    SubagentError { message: String },
    /// An event that AG-UI has no type for.
    Custom { name: &'static str, value: Value },
}

impl AgUiBody {
    /// Whether it must be the last event of its run.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}

/// How a run ended that did not fail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum AgUiOutcome {
    /// It is complete.
    Success,
    /// It continues in another run, after these questions are answered.
    Interrupt {
        /// At least one.
        interrupts: Vec<AgUiInterrupt>,
    },
    /// A person stopped it.
    Cancelled,
}

/// How a nested agent's part of a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum AgUiSubagentOutcome {
    /// It continues after an interrupt.
    Suspended {
        /// The interrupts that it raised itself.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        interrupt_ids: Vec<String>,
    },
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgUiInterrupt {
    /// The id of the approval.
    pub id: String,
    /// `tool_call`, or `confirmation` if the client does not see the call.
    pub reason: &'static str,
    /// The question.
    pub message: String,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The nested agent that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<String>,
    /// The JSON Schema of the answer's `payload`.
    pub response_schema: Value,
    /// When it can no longer be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Under `holodeck`: the tool, its arguments and the priority.
    pub metadata: AgUiMetadata,
}

/// The schema of the `payload` that answers an approval: what [`super::RunAgentInput`] reads. Chats offer a plain yes and
/// no only where they can tell that the schema accepts it. `additionalProperties` would keep them from that, so words say
/// what it means.
pub(super) fn response_schema() -> Value {
    json!({
        "type": "object",
        "description": "Any other field is refused",
        "properties": {
            "approved": { "type": "boolean" },
            "editedArgs": { "type": "object", "description": "Replaces all arguments of the call" },
            "reason": { "type": "string", "description": "Shown to the agent if the call is refused" },
            "scope": { "enum": ["once", "session", "always"], "description": "How long an approval counts" },
            "terminate": { "type": "boolean", "description": "With approved: false, end the run" },
        },
        "required": ["approved"],
    })
}

/// Tokens of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgUiUsage {
    /// The model that answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the prompts, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the answers, reasoning included.
    pub output_tokens: u64,
    /// Their sum.
    pub total_tokens: u64,
    /// Answer tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Prompt tokens that came from a cache.
    pub cached_input_tokens: u64,
    /// Prompt tokens that were written to a cache.
    pub cache_write_input_tokens: u64,
}

impl AgUiUsage {
    /// At most one entry: the sum over the run.
    pub(super) fn of(totals: &RunTotals) -> Vec<Self> {
        let sum = |usage: Usage| Self {
            model: totals.model.clone(),
            input_tokens: usage.prompt_tokens,
            output_tokens: usage.completion_tokens,
            total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
            reasoning_tokens: usage.reasoning_tokens,
            cached_input_tokens: usage.cache_read_tokens,
            cache_write_input_tokens: usage.cache_creation_tokens,
        };
        totals.usage.map(sum).into_iter().collect()
    }
}
