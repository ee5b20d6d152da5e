use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A question to the host: may this call run?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAsk {
    /// The tool, as the model named it.
    pub tool_name: String,
    /// The arguments it would run with.
    pub arguments: Value,
    /// The provider's id of the call.
    pub call_id: String,
    /// What the call is about, in the asker's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Set when an agent that the running one started asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The host's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// It may run, with these arguments if there are any, else with its own.
    Approve {
        /// Arguments that replace the model's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// It may not; the model is told and goes on.
    Reject {
        /// What the model is told.
        reason: String,
    },
    /// It may not, and the turn ends.
    Terminate {
        /// Why.
        reason: String,
    },
    /// The asker took the question back.
    Withdrawn,
}

impl ApprovalDecision {
    /// It may run as it is.
    pub fn approve() -> Self {
        Self::Approve { arguments: None }
    }

    /// Whether the call runs.
    pub fn is_approved(&self) -> bool {
        matches!(self, Self::Approve { .. })
    }
}

/// Answers asks: by a policy, or by asking a person.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides about one call. `cancel` fires when the answer is no longer wanted.
    async fn decide(&self, ask: &ApprovalAsk, cancel: &CancellationToken) -> ApprovalDecision;
}
