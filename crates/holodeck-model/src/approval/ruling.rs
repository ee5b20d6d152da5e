//! A call that a policy is asked about, and what it rules.

use serde_json::Value;

use crate::{ApprovalPriority, AskReason, CallPath, Occasion, Zone};

/// Who can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A person.
    Person,
    /// No person.
    None,
}

/// Whether a test may use the built-in tools that change files or run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffectGate {
    /// It may: `--allow-side-effects` was given.
    Open,
    /// It may not.
    #[default]
    Closed,
}

/// The circumstances of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalContext {
    /// The occasion on which the agent runs.
    pub occasion: Occasion,
    /// Who can be asked.
    pub presence: Presence,
    /// Applies only to tests.
    pub side_effects: SideEffectGate,
}

/// The decision of a policy about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// It runs.
    Approve,
    /// It does not run.
    Reject {
        /// The reason that is sent to the model.
        reason: String,
    },
    /// A person decides.
    AskPerson {
        /// How urgent the question is.
        priority: ApprovalPriority,
    },
}

/// A call about which a policy decides.
#[derive(Clone, Copy, Debug)]
pub struct PolicyCall<'a> {
    /// The tool, as the model or the CLI names it.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Value,
    /// The paths that they name.
    pub paths: &'a [CallPath],
    /// Why the backend asks.
    pub reason: Option<&'a AskReason>,
}

/// The basis of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulingBasis {
    /// A rule of `approvals:`, or an entry of a list.
    Rule,
    /// The origin of the tool and the permission mode.
    Mode,
    /// `approvals.non_interactive`.
    NonInteractive,
    /// Where the files are that the call touches.
    Folders,
}

/// A decision with its basis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRuling {
    /// The decision.
    pub decision: PolicyDecision,
    /// Its basis.
    pub basis: RulingBasis,
    /// The rule that decided, in words or as in `approvals.rules[0]`.
    pub rule: String,
    /// Where the most critical path of the call is.
    pub zone: Zone,
}

impl ApprovalContext {
    pub(super) fn is_attended(self) -> bool {
        self.presence == Presence::Person && self.occasion != Occasion::Test
    }

    /// Whether the person is at this machine: a client of a server is not.
    pub(super) fn is_local(self) -> bool {
        self.is_attended() && self.occasion != Occasion::Serve
    }
}
