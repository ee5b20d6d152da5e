//! The result of one turn, with its tool calls and outcome, in the same shape for every backend.

use std::{borrow::Cow, time::Duration};

use holodeck_model::{CallDetails, Evidence, ExecutorRecord, TokenUsage, events::StopReason};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::NumberOdds;

/// The result of one turn of an agent, in the same shape for every backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct ExecutionResult {
    /// The text of the final answer; after a failure, the text received so far.
    pub response: String,
    /// Tool calls in the order the model made them.
    pub tool_calls: Vec<ToolCall>,
    /// Results in the order they arrived; linked to their calls by `call_id`.
    pub tool_results: Vec<ToolResult>,
    /// Tokens of all model calls of the turn. `None` if the endpoint reported no usage: missing, not zero.
    pub token_usage: Option<TokenUsage>,
    /// The cost that the backend's service reported; if absent, a price list is used.
    pub cost_usd: Option<f64>,
    /// The validated object when the agent has a `response_format`.
    pub structured_output: Option<Value>,
    /// The odds of the numbers in the answer, if they were asked for and the model reports them.
    pub number_odds: Vec<NumberOdds>,
    /// Number of model calls.
    pub num_turns: u32,
    /// How the turn ended.
    pub outcome: Outcome,
    /// Reasoning text, if the model returns it.
    pub thinking: Option<String>,
    /// The model's own name, as the endpoint reported it.
    pub model: Option<String>,
    /// Time that counts towards a latency limit but did not pass in this process: the duration of replayed model calls
    /// when they were recorded.
    pub recorded_latency: Option<Duration>,
    /// Why a part of the answer is missing or may be; `None` if the answer is complete.
    pub truncated_by: Option<StopReason>,
    /// Why the last message of the model ended; `None` if none was complete, or if an earlier version stored the result.
    pub finish_reason: Option<StopReason>,
    /// Which executor answered, if the agent has `routing:`.
    pub execution: Option<Box<ExecutorRecord>>,
    /// The passages that the answer was made from, as an agent that is not ours reported them.
    pub passages: Option<Vec<String>>,
    /// The parts of the answer that an agent which is not ours did not report.
    pub unreported: Vec<Evidence>,
}

impl Default for ExecutionResult {
    /// An empty answer of one model call, as the contract has it; [`unasked`](Self::unasked) is of none.
    fn default() -> Self {
        Self {
            response: String::new(),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            token_usage: None,
            cost_usd: None,
            structured_output: None,
            number_odds: Vec::new(),
            num_turns: default_num_turns(),
            outcome: Outcome::default(),
            thinking: None,
            model: None,
            recorded_latency: None,
            truncated_by: None,
            finish_reason: None,
            execution: None,
            passages: None,
            unreported: Vec::new(),
        }
    }
}

impl ExecutionResult {
    /// The result of no model call.
    pub fn unasked() -> Self {
        Self {
            num_turns: 0,
            ..Self::default()
        }
    }

    /// Whether a part of the answer was not reported.
    pub fn lacks(&self, evidence: Evidence) -> bool {
        self.unreported.contains(&evidence)
    }

    /// Whether the turn failed.
    pub fn is_error(&self) -> bool {
        self.outcome.reason().is_some()
    }

    /// The tool calls, each with its result if there is one.
    pub fn calls(&self) -> impl Iterator<Item = (&ToolCall, Option<&ToolResult>)> {
        self.tool_calls.iter().map(|call| {
            let mut results = self.tool_results.iter();
            (call, results.find(|result| result.call_id == call.call_id))
        })
    }

    /// Passes each text to `text` and each JSON value to `value`, to mask what they hold. Ids of calls are not among them.
    pub fn edit(&mut self, mut text: impl FnMut(&mut String), mut value: impl FnMut(&mut Value)) {
        let Self {
            response,
            tool_calls,
            tool_results,
            token_usage: _,
            cost_usd: _,
            structured_output,
            number_odds,
            num_turns: _,
            outcome,
            thinking,
            model,
            recorded_latency: _,
            truncated_by,
            finish_reason,
            execution,
            passages,
            unreported: _,
        } = self;
        text(response);
        for call in tool_calls {
            call.edit(&mut text, &mut value);
        }
        for result in tool_results {
            result.edit(&mut text);
        }
        passages.iter_mut().flatten().for_each(&mut text);
        structured_output.as_mut().map(&mut value);
        for odds in number_odds {
            text(&mut odds.field);
        }
        outcome.texts_mut().for_each(&mut text);
        for optional in [thinking, model] {
            optional.as_mut().map(&mut text);
        }
        for reason in [truncated_by, finish_reason].into_iter().flatten() {
            let mut word = reason.as_str().to_owned();
            text(&mut word);
            if word != reason.as_str() {
                *reason = StopReason::from(word);
            }
        }
        if let Some(execution) = execution {
            execution.texts_mut().for_each(text);
        }
    }

    /// Passes each id of a call to `id`.
    pub fn edit_ids(&mut self, mut id: impl FnMut(&mut String)) {
        let calls = self.tool_calls.iter_mut().map(|call| &mut call.call_id);
        let results = self.tool_results.iter_mut().map(|result| &mut result.call_id);
        calls.chain(results).for_each(&mut id);
    }

    /// Why the turn failed, in the wording of the contract.
    pub fn error_reason(&self) -> Option<Cow<'_, str>> {
        self.outcome.reason()
    }
}

/// One tool call as the model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Tool name as the model sees it.
    pub name: String,
    /// Arguments, usually an object.
    pub arguments: Value,
    /// The provider's id of the call, or a generated id that begins with [`ToolCall::GENERATED_ID_PREFIX`].
    pub call_id: String,
    /// Fields that must go back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_fields: Option<Box<ProviderFields>>,
}

/// Fields of a message of the model that only its provider understands, such as signatures of its reasoning. They go back
/// with the call that they came with, unchanged, and only to the model that sent them. They are no part of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderFields {
    /// The model that sent them, as the YAML names it.
    pub model: String,
    /// The fields of the message; those are with its first call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub message: Map<String, Value>,
    /// The fields of the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub call: Map<String, Value>,
}

impl ProviderFields {
    /// All their values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.message.values_mut().chain(self.call.values_mut())
    }
}

impl ToolCall {
    /// Prefix of ids that a backend generates if the provider sends none or repeats one.
    pub const GENERATED_ID_PREFIX: &str = "hd_";

    /// Passes each text but the id to `text` and each JSON value to `value`, to mask what they hold.
    pub fn edit(&mut self, mut text: impl FnMut(&mut String), mut value: impl FnMut(&mut Value)) {
        let Self {
            name,
            arguments,
            call_id: _,
            provider_fields,
        } = self;
        text(name);
        value(arguments);
        if let Some(fields) = provider_fields {
            text(&mut fields.model);
            fields.values_mut().for_each(&mut value);
        }
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call this answers.
    pub call_id: String,
    /// Tool name.
    #[serde(default)]
    pub name: String,
    /// The text for the model.
    pub result: String,
    /// Whether the tool reported a failure.
    #[serde(default)]
    pub is_error: bool,
    /// How long the tool ran, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Details of the call.
    #[serde(flatten)]
    pub details: CallDetails,
}

impl ToolResult {
    /// Passes each text but the id of the call to `text`, to mask what it holds.
    pub fn edit(&mut self, mut text: impl FnMut(&mut String)) {
        let Self {
            call_id: _,
            name,
            result,
            is_error: _,
            duration_ms: _,
            details,
        } = self;
        text(name);
        text(result);
        details.namesakes.iter_mut().for_each(&mut text);
        details.texts_mut().for_each(&mut text);
    }
}

/// How a turn ended. The texts of [`Outcome::reason`] are part of the contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The agent answered.
    #[default]
    Completed,
    /// The agent reached its limit of model calls.
    MaxTurns,
    /// The agent's process ended unexpectedly.
    SubprocessTerminated,
    /// A tool could not be run at all.
    ToolFailed {
        /// The tool's name.
        name: String,
        /// The reason, if known. It is stored beside the contract's text, not in it.
        reason: Option<String>,
    },
    /// The turn took longer than allowed.
    TimedOut,
    /// The agent's own budget is used up.
    BudgetExceeded,
    /// The model refused.
    Refused,
    /// The final answer was empty.
    EmptyResponse,
    /// An approver ended the turn instead of allowing a tool call.
    Terminated {
        /// The approver's reason.
        reason: String,
    },
    /// Anything else, in lower case without a full stop.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// Maximum number of tool calls in one answer of a model; more end the turn.
pub const MAX_TOOL_CALLS: usize = 128;

const MAX_TURNS: &str = "max_turns limit reached";
const TERMINATED: &str = "subprocess terminated unexpectedly";
const TOOL_FAILED: &str = "tool execution failed: ";
const TIMED_OUT: &str = "timeout exceeded";
const BUDGET: &str = "budget exceeded";
const REFUSED: &str = "refused by the model";
const EMPTY: &str = "empty response";
const TERMINATED_BY_APPROVER: &str = "terminated by approval: ";

impl Outcome {
    /// The stored `error_reason`; `None` when the agent answered.
    pub fn reason(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Completed => return None,
            Self::MaxTurns => MAX_TURNS.into(),
            Self::SubprocessTerminated => TERMINATED.into(),
            Self::ToolFailed { name, .. } => format!("{TOOL_FAILED}{name}").into(),
            Self::TimedOut => TIMED_OUT.into(),
            Self::BudgetExceeded => BUDGET.into(),
            Self::Refused => REFUSED.into(),
            Self::EmptyResponse => EMPTY.into(),
            Self::Terminated { reason } => format!("{TERMINATED_BY_APPROVER}{reason}").into(),
            Self::Failed { reason } => reason.as_str().into(),
        })
    }

    /// Details beyond [`reason`](Self::reason).
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::ToolFailed { reason, .. } => reason.as_deref(),
            _ => None,
        }
    }

    /// The texts that come from a model, an endpoint or a person, to mask what they hold.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (text, detail) = match self {
            Self::ToolFailed { name, reason } => (Some(name), reason.as_mut()),
            Self::Terminated { reason } | Self::Failed { reason } => (Some(reason), None),
            Self::Completed
            | Self::MaxTurns
            | Self::SubprocessTerminated
            | Self::TimedOut
            | Self::BudgetExceeded
            | Self::Refused
            | Self::EmptyResponse => (None, None),
        };
        text.into_iter().chain(detail)
    }

    /// One answer had more than [`MAX_TOOL_CALLS`].
    pub fn too_many_tool_calls() -> Self {
        Self::Failed {
            reason: format!("more than {MAX_TOOL_CALLS} tool calls in one answer"),
        }
    }

    /// Parses a stored `error_reason`.
    pub fn from_reason(reason: Option<&str>) -> Self {
        match reason {
            None => Self::Completed,
            Some(MAX_TURNS) => Self::MaxTurns,
            Some(TERMINATED) => Self::SubprocessTerminated,
            Some(TIMED_OUT) => Self::TimedOut,
            Some(BUDGET) => Self::BudgetExceeded,
            Some(REFUSED) => Self::Refused,
            Some(EMPTY) => Self::EmptyResponse,
            Some(other) => {
                if let Some(name) = other.strip_prefix(TOOL_FAILED) {
                    let name = name.to_owned();
                    return Self::ToolFailed { name, reason: None };
                }
                if let Some(reason) = other.strip_prefix(TERMINATED_BY_APPROVER) {
                    let reason = reason.to_owned();
                    return Self::Terminated { reason };
                }
                Self::Failed {
                    reason: other.to_owned(),
                }
            }
        }
    }

    /// Whether the *agent* failed (a failed case) rather than its environment (an error).
    pub fn is_agent_failure(&self) -> bool {
        matches!(
            self,
            Self::MaxTurns
                | Self::BudgetExceeded
                | Self::Refused
                | Self::EmptyResponse
                | Self::Terminated { .. }
                | Self::Failed { .. }
        )
    }
}

/// The stored form: the field names of the seed, with `is_error` and `error_reason` derived from the outcome.
#[derive(Serialize, Deserialize)]
struct Record {
    response: String,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    tool_results: Vec<ToolResult>,
    #[serde(default)]
    token_usage: Option<TokenUsage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(default)]
    structured_output: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    number_odds: Vec<NumberOdds>,
    #[serde(default = "default_num_turns")]
    num_turns: u32,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    error_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded_latency_ms: Option<u64>,
    /// For readers that do not know the reasons.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    truncated_by: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finish_reason: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<Box<ExecutorRecord>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passages: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unreported: Vec<Evidence>,
}

fn default_num_turns() -> u32 {
    1
}

impl From<ExecutionResult> for Record {
    fn from(result: ExecutionResult) -> Self {
        Self {
            is_error: result.is_error(),
            error_reason: result.outcome.reason().map(Cow::into_owned),
            error_detail: result.outcome.detail().map(str::to_owned),
            response: result.response,
            tool_calls: result.tool_calls,
            tool_results: result.tool_results,
            token_usage: result.token_usage,
            cost_usd: result.cost_usd,
            structured_output: result.structured_output,
            number_odds: result.number_odds,
            num_turns: result.num_turns,
            thinking: result.thinking,
            model: result.model,
            recorded_latency_ms: result
                .recorded_latency
                .map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
            truncated: result.truncated_by.is_some(),
            truncated_by: result.truncated_by,
            finish_reason: result.finish_reason,
            execution: result.execution,
            passages: result.passages,
            unreported: result.unreported,
        }
    }
}

impl From<Record> for ExecutionResult {
    fn from(record: Record) -> Self {
        let mut outcome = match (record.is_error, record.error_reason.as_deref()) {
            (true, None) => Outcome::Failed {
                reason: "unknown".to_owned(),
            },
            (_, reason) => Outcome::from_reason(reason),
        };
        if let Outcome::ToolFailed { reason, .. } = &mut outcome {
            *reason = record.error_detail;
        }
        Self {
            response: record.response,
            tool_calls: record.tool_calls,
            tool_results: record.tool_results,
            token_usage: record.token_usage,
            cost_usd: record.cost_usd,
            structured_output: record.structured_output,
            number_odds: record.number_odds,
            num_turns: record.num_turns,
            outcome,
            thinking: record.thinking,
            model: record.model,
            recorded_latency: record.recorded_latency_ms.map(Duration::from_millis),
            truncated_by: record.truncated_by,
            finish_reason: record.finish_reason,
            execution: record.execution,
            passages: record.passages,
            unreported: record.unreported,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn outcomes_survive_storage() {
        for outcome in [
            Outcome::Completed,
            Outcome::MaxTurns,
            Outcome::SubprocessTerminated,
            Outcome::ToolFailed {
                name: "lookup".to_owned(),
                reason: Some("its program is missing".to_owned()),
            },
            Outcome::TimedOut,
            Outcome::BudgetExceeded,
            Outcome::Refused,
            Outcome::EmptyResponse,
            Outcome::Terminated {
                reason: "enough".to_owned(),
            },
            Outcome::Failed {
                reason: "disk full".to_owned(),
            },
        ] {
            let result = ExecutionResult {
                outcome,
                num_turns: 2,
                ..ExecutionResult::default()
            };
            let stored = serde_json::to_value(&result).unwrap();
            assert_eq!(stored["is_error"], json!(result.is_error()));
            assert_eq!(serde_json::from_value::<ExecutionResult>(stored).unwrap(), result);
        }
    }

    #[test]
    fn the_seeds_texts_are_exact() {
        let reason = |outcome: Outcome| outcome.reason().unwrap().into_owned();
        assert_eq!(reason(Outcome::MaxTurns), "max_turns limit reached");
        assert_eq!(
            reason(Outcome::SubprocessTerminated),
            "subprocess terminated unexpectedly"
        );
        assert_eq!(
            reason(Outcome::ToolFailed {
                name: "f".to_owned(),
                reason: Some("its program is missing".to_owned()),
            }),
            "tool execution failed: f"
        );
        assert_eq!(reason(Outcome::TimedOut), "timeout exceeded");
    }

    #[test]
    fn a_result_of_the_seed_is_parsed() {
        let result: ExecutionResult = serde_json::from_value(json!({
            "response": "30 days",
            "token_usage": {"input_tokens": 450, "output_tokens": 180, "total_tokens": 630},
            "tool_calls": [{"name": "search", "arguments": {"query": "refund"}, "call_id": "toolu_1"}],
            "tool_results": [{"call_id": "toolu_1", "result": "…"}],
        }))
        .unwrap();
        assert_eq!(result.num_turns, 1);
        assert_eq!(result.token_usage.as_ref().unwrap().prompt_tokens, 450);
        assert!(!result.is_error());
    }
}
