//! Who decides whether a tool call may run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::{OneOrMany, nullable};

/// Who decides whether a tool call may run. The first rule that names the tool decides; a call that no rule names is
/// answered by how the tool came to be there, and by `claude.permission_mode`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsConfig {
    /// Seconds a person has to answer; `null`: as long as it takes.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
    /// What happens when nobody answered in time.
    pub on_timeout: OnApprovalTimeout,
    /// The answer when nobody can be asked: in tests, and in `run` and `serve` without a client.
    pub non_interactive: NonInteractive,
    /// Rules, the first that fits decides.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<ApprovalRule>>")]
    pub rules: Vec<ApprovalRule>,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self {
            timeout_seconds: Some(300),
            on_timeout: OnApprovalTimeout::Reject,
            non_interactive: NonInteractive::Reject,
            rules: Vec::new(),
        }
    }
}

/// What happens when nobody answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnApprovalTimeout {
    /// The call does not run; the model is told and goes on.
    Reject,
    /// The turn ends.
    Terminate,
}

/// The answer when nobody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NonInteractive {
    /// The call does not run.
    Reject,
    /// The call runs.
    Approve,
}

/// What is decided about some tools: either at once, or by a person.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Names of tools; `*` stands for any characters, `?` for one. A tool of an MCP server has its own name and
    /// `mcp__<server>__<tool>`; the name of a server stands for all its tools.
    pub tools: OneOrMany,
    /// Decides at once.
    pub decision: Option<RuleDecision>,
    /// Who is asked.
    pub approver: Option<RuleApprover>,
    /// How urgent the question is to the person; told from the tool's name if absent.
    pub priority: Option<ApprovalPriority>,
}

/// A decision made beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    /// The call runs.
    Approve,
    /// The call does not run.
    Reject,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleApprover {
    /// A person; where there is none, `non_interactive` answers.
    Human,
}

/// How much a question matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPriority {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl ApprovalPriority {
    /// What deletes or works in bulk matters much, what creates or changes some, anything else little.
    pub fn of_tool(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let says = |words: [&str; 2]| words.iter().any(|word| name.contains(word));
        if says(["delete", "batch"]) {
            Self::High
        } else if says(["create", "update"]) {
            Self::Medium
        } else {
            Self::Low
        }
    }
}
