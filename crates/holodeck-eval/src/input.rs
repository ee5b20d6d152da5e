//! Everything about an answer that metrics may read: question, expectation, tool calls, passages and cost.

use std::time::Duration;

use holodeck_backend_api::{ToolCall, ToolResult};
use holodeck_model::{CallDecision, CallRefusal, JsonMap, events::StopReason};
use serde_json::{Map, Value};

/// One answer of an agent with everything needed to grade it.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the runner fills it in as a literal with `..Default::default()`"
)]
pub struct EvalInput<'a> {
    /// The question.
    pub input: &'a str,
    /// The answer.
    pub response: &'a str,
    /// The expected answer.
    pub ground_truth: Option<&'a str>,
    /// The answer as a value, where the agent has a `response_format`.
    pub structured_output: Option<&'a Value>,
    /// The tool calls of the turn, in order.
    pub tool_calls: &'a [CalledTool<'a>],
    /// The passages that metrics use: those of the case, else those that tools retrieved.
    pub retrieval_context: Option<&'a [String]>,
    /// The passages of the case.
    pub context: Option<&'a [String]>,
    /// The passages that tools retrieved.
    pub retrieved: Option<&'a [String]>,
    /// How long the answer took, if known.
    pub latency: Option<Duration>,
    /// The cost of the answer, if usage and price are known.
    pub cost_usd: Option<f64>,
    /// Why the answer ended, if that is known.
    pub finish_reason: Option<&'a StopReason>,
    /// The place of the turn in the conversation, from 0.
    pub turn_index: usize,
    /// The name of the test case.
    pub test_case_name: Option<&'a str>,
    /// The configuration that the turn passes to code graders.
    pub turn_config: Option<&'a Map<String, Value>>,
    /// The `vars` of the case.
    pub vars: Option<&'a JsonMap>,
    /// The turns, for a metric of a whole conversation; the other fields are then those of all turns together.
    pub conversation: Option<&'a [ConversationTurn<'a>]>,
    /// The goal of the user, for a metric of a whole conversation that does not state it.
    pub goal: Option<&'a str>,
}

/// A turn of a conversation.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the runner fills it in as a literal")]
pub struct ConversationTurn<'a> {
    /// The message of the user.
    pub input: &'a str,
    /// The answer of the agent.
    pub answer: &'a str,
    /// The tool calls of the turn, in order.
    pub tool_calls: Vec<CalledTool<'a>>,
    /// The passages of the turn.
    pub retrieval_context: Option<Vec<String>>,
}

/// The parts of a tool call that expectations check.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CalledTool<'a> {
    /// Tool name as the model sees it.
    pub name: &'a str,
    /// Arguments, usually an object.
    pub arguments: &'a Value,
    /// Why the tool did not run, if it did not.
    pub refused: Option<CallRefusal>,
    /// The decision about the call, if that is known.
    pub decision: Option<CallDecision>,
    /// Whether the tool ran and failed.
    pub failed: bool,
    /// Other tools that its bare name may refer to.
    pub namesakes: &'a [String],
    /// Its result, if it has one.
    pub result: Option<&'a str>,
    /// How long it ran, if it was measured.
    pub duration_ms: Option<u64>,
}

impl<'a> CalledTool<'a> {
    /// A successful call of the tool with these arguments.
    pub fn new(name: &'a str, arguments: &'a Value) -> Self {
        Self {
            name,
            arguments,
            refused: None,
            decision: None,
            failed: false,
            namesakes: &[],
            result: None,
            duration_ms: None,
        }
    }

    /// A call with its result, if it has one.
    pub fn with_result(call: &'a ToolCall, result: Option<&'a ToolResult>) -> Self {
        Self {
            namesakes: result.map_or(&[], |result| result.details.namesakes.as_slice()),
            refused: result.and_then(|result| result.details.refused),
            failed: result.is_none_or(|result| result.is_error),
            result: result.map(|result| result.result.as_str()),
            duration_ms: result.and_then(|result| result.duration_ms),
            ..Self::new(&call.name, &call.arguments)
        }
    }
}
