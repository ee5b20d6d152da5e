//! The input of metrics.

use std::time::Duration;

use holodeck_backend_api::{ToolCall, ToolResult};
use holodeck_model::CallRefusal;
use serde_json::Value;

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
    /// What the answer cost, if usage and price are known.
    pub cost_usd: Option<f64>,
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
    /// Whether the tool ran and failed.
    pub failed: bool,
    /// Other tools that its bare name may refer to.
    pub namesakes: &'a [String],
}

impl<'a> CalledTool<'a> {
    /// A successful call of the tool with these arguments.
    pub fn new(name: &'a str, arguments: &'a Value) -> Self {
        Self {
            name,
            arguments,
            refused: None,
            failed: false,
            namesakes: &[],
        }
    }

    /// A call with its result, if it has one.
    pub fn with_result(call: &'a ToolCall, result: Option<&'a ToolResult>) -> Self {
        Self {
            namesakes: result.map_or(&[], |result| result.details.namesakes.as_slice()),
            refused: result.and_then(|result| result.details.refused),
            failed: result.is_none_or(|result| result.is_error),
            ..Self::new(&call.name, &call.arguments)
        }
    }
}
