//! What a metric may look at.

use std::time::Duration;

use holodeck_backend_api::{ToolCall, ToolResult};
use holodeck_model::CallRefusal;
use serde_json::Value;

/// One answer of an agent with all that grading it needs.
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
    /// What retrieval found.
    pub retrieval_context: Option<&'a [String]>,
    /// How long the answer took, if that is known.
    pub latency: Option<Duration>,
    /// What the answer cost, if usage and price are known.
    pub cost_usd: Option<f64>,
}

/// A tool call, as far as expectations look at it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CalledTool<'a> {
    /// Tool name as the model sees it.
    pub name: &'a str,
    /// Arguments, as a rule an object.
    pub arguments: &'a Value,
    /// Why the tool did not run, if it did not.
    pub refused: Option<CallRefusal>,
    /// Whether the tool ran and failed.
    pub failed: bool,
}

impl<'a> CalledTool<'a> {
    /// A call of the tool with these arguments that did what it was asked.
    pub fn new(name: &'a str, arguments: &'a Value) -> Self {
        Self {
            name,
            arguments,
            refused: None,
            failed: false,
        }
    }

    /// A call with what came of it, where anything did.
    pub fn with_result(call: &'a ToolCall, result: Option<&ToolResult>) -> Self {
        Self {
            refused: result.and_then(|result| result.details.refused),
            failed: result.is_none_or(|result| result.is_error),
            ..Self::new(&call.name, &call.arguments)
        }
    }
}
