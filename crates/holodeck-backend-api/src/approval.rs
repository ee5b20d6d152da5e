//! Questions whether a tool call may run, and who decides them: a rule, a default or a person.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A question to the host: may this tool call run?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAsk {
    /// The tool, as the model named it.
    pub tool_name: String,
    /// The arguments it would run with.
    pub arguments: Value,
    /// The provider's id of the call.
    pub call_id: String,
    /// A description of the call, by the asker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The nested agent that asks, if it is not the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Not whether the call may run is asked, but for an object that matches this schema, during the call: an MCP server
    /// asks the person. [`Approve`](ApprovalDecision::Approve) contains it as `arguments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Box<Value>>,
}

/// The host's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run, with these arguments if present, otherwise with its own.
    Approve {
        /// Arguments that replace the model's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// The call may not run; the model sees the reason and continues.
    Reject {
        /// The reason that the model sees.
        reason: String,
    },
    /// The call may not run, and the turn ends as [`Outcome::Terminated`](crate::Outcome::Terminated).
    Terminate {
        /// Why.
        reason: String,
    },
    /// The asker withdrew the question.
    Withdrawn,
}

impl ApprovalDecision {
    /// The call may run unchanged.
    pub fn approve() -> Self {
        Self::Approve { arguments: None }
    }

    /// The call may not run.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject {
            reason: reason.into(),
        }
    }

    /// The arguments and the reason, where present.
    pub fn parts_mut(&mut self) -> (Option<&mut Value>, Option<&mut String>) {
        match self {
            Self::Approve { arguments } => (arguments.as_mut(), None),
            Self::Reject { reason } | Self::Terminate { reason } => (None, Some(reason)),
            Self::Withdrawn => (None, None),
        }
    }

    /// Whether the call runs.
    pub fn is_approved(&self) -> bool {
        matches!(self, Self::Approve { .. })
    }
}

/// Who or what decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A rule of the agent's YAML that names the tool.
    Rule,
    /// The default without a rule: the declaration of the tool and the permission mode.
    Mode,
    /// `approvals.non_interactive`: a person had to decide, and none was present.
    NonInteractive,
    /// A person.
    Person,
}

/// A decision about one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The provider's id of the call.
    pub call_id: String,
    /// The decision.
    pub decision: ApprovalDecision,
    /// Who or what decided.
    pub by: DecidedBy,
}

/// Decides about tool calls: by a policy, or by asking a person.
#[async_trait]
pub trait Approver: Send + Sync {
    /// The decision without a person; `None` if a person must be [asked](Self::ask).
    fn decide(&self, ask: &ApprovalAsk) -> Option<(ApprovalDecision, DecidedBy)>;

    /// Whether there is a person to ask.
    fn has_person(&self) -> bool {
        false
    }

    /// Asks a person; the default has no person and rejects. `cancel` fires when the answer is no longer needed.
    async fn ask(&self, ask: &ApprovalAsk, cancel: &CancellationToken) -> ApprovalDecision {
        let _ = (ask, cancel);
        ApprovalDecision::reject("no person is available to approve it")
    }
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}
