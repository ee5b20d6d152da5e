//! The gates that a command passes before the agent's backend executes it, in their order.

use holodeck_model::{RoutingDecision, TerminationReason};
use serde::Serialize;

/// A gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Gate {
    /// The caller did not disable the backend.
    NotDisabled,
    /// The CLI, endpoint and credential are there.
    Available,
    /// Routing is on.
    Enabled,
    /// The command may be routed.
    CommandAllowed,
    /// There are specialist agents to select from.
    Selector,
    /// The selection found one.
    Selected,
    /// The selection is confident enough.
    Confident,
    /// The selected agent has a definition.
    Defined,
}

impl Gate {
    /// The decision if it refuses.
    pub fn refusal(self) -> RoutingDecision {
        match self {
            Self::NotDisabled => RoutingDecision::SdkDisabledOverride,
            Self::Available => RoutingDecision::SdkUnavailable,
            Self::Enabled => RoutingDecision::SdkNotEnabled,
            Self::CommandAllowed => RoutingDecision::CommandNotAllowed,
            Self::Selector => RoutingDecision::NoSelector,
            Self::Selected => RoutingDecision::SelectionDeclined,
            Self::Confident => RoutingDecision::LowConfidence,
            Self::Defined => RoutingDecision::NoSdkDefinition,
        }
    }

    /// Whether forcing the backend skips it.
    pub fn yields_to_force(self) -> bool {
        matches!(
            self,
            Self::Enabled | Self::CommandAllowed | Self::Selected | Self::Confident
        )
    }

    /// Why the attempt ended if it refuses.
    pub(crate) fn termination(self) -> TerminationReason {
        match self {
            Self::Available => TerminationReason::SdkUnavailable,
            _ => TerminationReason::Fallback,
        }
    }

    /// Its name in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotDisabled => "not disabled",
            Self::Available => "available",
            Self::Enabled => "enabled",
            Self::CommandAllowed => "command allowed",
            Self::Selector => "agents configured",
            Self::Selected => "agent selected",
            Self::Confident => "confident",
            Self::Defined => "defined",
        }
    }
}

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GateResult {
    /// The gate.
    pub gate: Gate,
    /// The decision.
    pub state: GateState,
    /// Why it refused, or would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The decision of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a gate has no other states")]
pub enum GateState {
    /// The command passed.
    Passed,
    /// It refused, and the caller forced the backend.
    Forced,
    /// It refused.
    Refused,
}

/// Records the gates in order; the first refusal wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates {
    force: bool,
    results: Vec<GateResult>,
}

impl Gates {
    pub(crate) fn new(force: bool) -> Self {
        Self {
            force,
            results: Vec::new(),
        }
    }

    /// Passes a gate, which refuses if there is a `problem`.
    pub(crate) fn pass(&mut self, gate: Gate, problem: Option<String>) -> Result<(), Refusal> {
        let state = match &problem {
            None => GateState::Passed,
            Some(_) if self.force && gate.yields_to_force() => GateState::Forced,
            Some(_) => GateState::Refused,
        };
        self.results.push(GateResult {
            gate,
            state,
            reason: problem.clone(),
        });
        match problem {
            Some(reason) if state == GateState::Refused => Err(Refusal { gate, reason }),
            _ => Ok(()),
        }
    }

    pub(crate) fn results(&self) -> &[GateResult] {
        &self.results
    }
}

/// A gate refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) gate: Gate,
    pub(crate) reason: String,
}
