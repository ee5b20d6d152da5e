//! The parts of an answer that a check reads, and that an agent which is not ours may not report.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of an answer that a check reads. What was not reported proves nothing: a check of it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The tool calls.
    ToolCalls,
    /// The passages that the answer was made from.
    RetrievalContext,
    /// The tokens.
    Usage,
    /// The cost.
    Cost,
    /// The reason for which the answer ended.
    FinishReason,
    /// How long the answer took.
    Latency,
}

impl Evidence {
    /// The name of the field with which a target reports it.
    pub fn field(self) -> &'static str {
        match self {
            Self::ToolCalls => "tool_calls",
            Self::RetrievalContext => "retrieval_context",
            Self::Usage => "usage",
            Self::Cost => "cost",
            Self::FinishReason => "finish_reason",
            Self::Latency => "latency",
        }
    }

    /// Why a check that reads it has no verdict.
    pub fn missing(self) -> String {
        format!("{self} not reported by the target, so the check cannot be computed")
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToolCalls => "tool calls were",
            Self::RetrievalContext => "passages were",
            Self::Usage => "tokens were",
            Self::Cost => "the cost was",
            Self::FinishReason => "the reason for the end was",
            Self::Latency => "the latency was",
        })
    }
}
