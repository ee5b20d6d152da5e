//! The result of one check, with its state, finding and remedy.

use holodeck_model::{Diagnostic, Severity};
use holodeck_yaml::LoadedAgent;
use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The subject, such as `credentials`.
    pub subject: String,
    /// The outcome.
    pub state: CheckState,
    /// The finding.
    pub found: String,
    /// The problem and its remedy, if there is one.
    pub diagnostic: Option<Diagnostic>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Available.
    Ok,
    /// It may not work.
    Warning,
    /// Missing; the agent can't run.
    Missing,
    /// Not needed by this agent.
    NotNeeded,
    /// Not checked; the state is unknown.
    NotChecked,
}

impl Check {
    /// A passed check.
    pub fn ok(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            state: CheckState::Ok,
            found: found.into(),
            diagnostic: None,
        }
    }

    /// A check that does not apply.
    pub fn not_needed(subject: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            state: CheckState::NotNeeded,
            ..Self::ok(subject, why)
        }
    }

    /// A check that was not made.
    pub fn not_checked(subject: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            state: CheckState::NotChecked,
            ..Self::ok(subject, why)
        }
    }

    /// An error means missing; lower severities mean a warning.
    pub fn problem(subject: impl Into<String>, diagnostic: Diagnostic) -> Self {
        let state = if diagnostic.severity == Severity::Error {
            CheckState::Missing
        } else {
            CheckState::Warning
        };
        Self {
            subject: subject.into(),
            state,
            found: diagnostic.message.clone(),
            diagnostic: Some(diagnostic),
        }
    }
}

/// With a recording, the model, the CLI and what tools need are optional.
pub fn unless_replayed(agent: &LoadedAgent, error: Diagnostic) -> Diagnostic {
    if agent.execution.replay.value.is_none() || error.severity != Severity::Error {
        return error;
    }
    Diagnostic {
        severity: Severity::Warning,
        message: format!("{}; only the recording can answer", error.message),
        ..error
    }
}
