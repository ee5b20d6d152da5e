//! Which decisions about tool calls a test expects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A decision about the calls of a tool that a test expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedApproval {
    /// Name of the tool.
    #[schemars(regex(pattern = r"\S"))]
    pub tool: String,
    /// The decision that at least one of its calls must have.
    pub decision: CallDecision,
}

/// The decision about a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(
    clippy::exhaustive_enums,
    reason = "a call runs, does not run, or a person decides"
)]
pub enum CallDecision {
    /// A person had to decide. In a test no person is present, and `approvals.non_interactive` decides instead.
    Asked,
    /// It ran without a question to a person.
    Allowed,
    /// It was refused without a question to a person.
    Denied,
}

impl CallDecision {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
        }
    }
}
