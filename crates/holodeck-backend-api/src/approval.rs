//! Questions whether a tool call may run, and who decides them: a rule, a default or a person.

use std::fmt;

use async_trait::async_trait;
use holodeck_model::{AskReason, CallPath, Zone, events::ApprovalScope, remembered_approval};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ToolCall;

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
    /// The paths that the arguments name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<CallPath>,
    /// Why the program that runs the loop asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AskReason>,
    /// Where the paths are.
    #[serde(default, skip_serializing_if = "Zone::is_inside")]
    pub zone: Zone,
    /// Changes with the tool, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_digest: Option<String>,
    /// How long an approval may count; without it, any scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<ApprovalScope>>,
    /// Another question is asked at the same time: it is the next event, and comes without waiting for an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_followed: bool,
}

impl ApprovalAsk {
    /// The question about a call that names no paths.
    pub fn about(call: &ToolCall) -> Self {
        Self {
            tool_name: call.name.clone(),
            arguments: call.arguments.clone(),
            call_id: call.call_id.clone(),
            description: None,
            agent_id: None,
            answer_schema: None,
            paths: Vec::new(),
            reason: None,
            zone: Zone::Inside,
            tool_digest: None,
            scopes: None,
            is_followed: false,
        }
    }

    /// The paths, links resolved, if not all of them are simply in the agent's folders.
    pub fn outer_paths(&self) -> Vec<String> {
        if self.zone.is_inside() {
            return Vec::new();
        }
        let paths = self.paths.iter();
        let mut paths: Vec<String> = paths
            .map(|path| path.path.as_ref().unwrap_or(&path.named).clone())
            .collect();
        paths.dedup();
        paths
    }

    /// The text under which an approval of this call is remembered.
    pub fn remembered_as(&self) -> String {
        remembered_approval(&self.tool_name, &self.outer_paths(), self.tool_digest.as_deref())
    }

    /// The record of a decision about this call that `rule` made.
    pub fn basis(&self, rule: impl Into<String>) -> Option<Box<ApprovalBasis>> {
        (!self.zone.is_inside()).then(|| {
            Box::new(ApprovalBasis {
                zone: self.zone,
                paths: self.outer_paths(),
                rule: rule.into(),
            })
        })
    }
}

/// The record of a decision about a call whose paths are not all simply in the agent's folders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalBasis {
    /// Where they are.
    pub zone: Zone,
    /// The paths, links resolved.
    pub paths: Vec<String>,
    /// The rule that decided, in words or as in `approvals.rules[0]`.
    pub rule: String,
}

/// A decision without a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    /// The decision.
    pub decision: ApprovalDecision,
    /// The origin of the decision.
    pub by: DecidedBy,
    /// The rule that decided, in words or as in `approvals.rules[0]`.
    pub rule: String,
}

impl Ruling {
    /// A decision by a rule without a name.
    pub fn new(decision: ApprovalDecision, by: DecidedBy) -> Self {
        Self {
            decision,
            by,
            rule: String::new(),
        }
    }
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
    /// Where the files are that the call touches.
    Folders,
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
    /// The paths and the rule, if not all paths of the call are simply in the agent's folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Box<ApprovalBasis>>,
}

impl Approval {
    /// The record of a ruling about a call.
    pub fn ruled(ask: &ApprovalAsk, ruling: &Ruling) -> Self {
        Self {
            call_id: ask.call_id.clone(),
            decision: ruling.decision.clone(),
            by: ruling.by,
            basis: ask.basis(&ruling.rule),
        }
    }
}

/// Decides about tool calls: by a policy, or by asking a person.
#[async_trait]
pub trait Approver: Send + Sync {
    /// The decision without a person; `None` if a person must be [asked](Self::ask).
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling>;

    /// Where the most critical path of a call is.
    fn zone(&self, ask: &ApprovalAsk) -> Zone {
        let _ = ask;
        Zone::Inside
    }

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
