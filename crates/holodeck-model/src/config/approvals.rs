//! Who decides whether a tool call may run.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ArgMatcher;
use crate::value::{OneOrMany, nullable};

/// Who decides whether a tool call may run. The first rule that names the tool decides; without such a rule, the origin
/// of the tool and `claude.permission_mode` decide.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsConfig {
    /// Seconds a person has to answer; `null`: no limit.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u32>,
    /// How to decide if no answer arrives in time.
    pub on_timeout: OnApprovalTimeout,
    /// The decision when no person can be asked: in tests, and in `run` and `serve` without a client.
    pub non_interactive: NonInteractive,
    /// How long the approval of a person may count. By default any of them.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ScopeName>>")]
    pub scopes: Vec<ScopeName>,
    /// Rules; the first one that matches decides.
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
            scopes: Vec::new(),
            rules: Vec::new(),
        }
    }
}

/// How long the approval of a person counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// For the call.
    Once,
    /// For further calls of the tool in the conversation.
    Session,
    /// For further calls of the tool in all conversations of the user with the agent.
    Always,
}

/// How to decide if no answer arrives in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnApprovalTimeout {
    /// The call does not run; the model receives the rejection and continues.
    Reject,
    /// The turn ends.
    Terminate,
}

/// The decision when no person can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NonInteractive {
    /// The call does not run.
    Reject,
    /// The call runs.
    Approve,
}

/// A rule for some tools: a fixed decision, or a person decides.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Names of tools; `*` matches any characters, `?` matches one. A tool of an MCP server has its own name and
    /// `mcp__<server>__<tool>`; the name of a server means all its tools.
    pub tools: OneOrMany,
    /// Paths, as in `.gitignore` and relative to the working directory; `~` and `$HOME` are the user's. The rule approves
    /// a call if all paths of the call match, and rejects it, or asks, if any does. It never matches a call without a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<OneOrMany>,
    /// Arguments that must match, as in `expected_tools`: literal values or matchers; others are free.
    #[serde(
        default,
        skip_serializing_if = "IndexMap::is_empty",
        deserialize_with = "nullable"
    )]
    #[schemars(with = "Option<IndexMap<String, ArgMatcher>>")]
    pub arguments: IndexMap<String, ArgMatcher>,
    /// The fixed decision.
    pub decision: Option<RuleDecision>,
    /// Who is asked.
    pub approver: Option<RuleApprover>,
    /// How urgent the question is; derived from the tool's name if absent.
    pub priority: Option<ApprovalPriority>,
}

/// A fixed decision.
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
    /// A person; if none is present, `non_interactive` decides.
    Human,
}

/// How urgent a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPriority {
    /// Low urgency.
    Low,
    /// Medium urgency.
    Medium,
    /// High urgency.
    High,
}

impl ApprovalPriority {
    /// High for tools that delete or work in bulk, medium for tools that create or change, low for all others.
    pub fn of_tool(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let contains_any = |words: [&str; 2]| words.iter().any(|word| name.contains(word));
        if contains_any(["delete", "batch"]) {
            Self::High
        } else if contains_any(["create", "update"]) {
            Self::Medium
        } else {
            Self::Low
        }
    }
}
