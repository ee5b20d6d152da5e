use holodeck_model::{Diagnostic, LoadedAgent, Severity};
use serde::Serialize;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What, as in `credentials`.
    pub subject: String,
    /// How it stands.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What to do, when something is to be done.
    pub diagnostic: Option<Diagnostic>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// It is there.
    Ok,
    /// It may not work.
    Warning,
    /// The agent can't run without it.
    Missing,
    /// This agent does not need it.
    NotNeeded,
}

impl Check {
    pub(crate) fn ok(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            state: CheckState::Ok,
            found: found.into(),
            diagnostic: None,
        }
    }

    pub(crate) fn not_needed(subject: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            state: CheckState::NotNeeded,
            found: why.into(),
            diagnostic: None,
        }
    }

    pub(crate) fn problem(subject: impl Into<String>, diagnostic: Diagnostic) -> Self {
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

/// A recording answers without the model, the CLI, and what tools need.
pub(crate) fn unless_replayed(agent: &LoadedAgent, error: Diagnostic) -> Diagnostic {
    if agent.execution.replay.value.is_none() {
        return error;
    }
    Diagnostic {
        severity: Severity::Warning,
        message: format!("{}; only the recording can answer", error.message),
        ..error
    }
}
