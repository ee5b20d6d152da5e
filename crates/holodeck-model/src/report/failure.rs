//! How the execution of a case ended, and why it failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the agent's part of a case or turn ended, before any grading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    /// The agent answered.
    #[default]
    Completed,
    /// The agent failed: turn limit, own budget, refusal, empty answer.
    AgentFailed,
    /// Something outside the agent failed: time-out, endpoint, crash.
    Error,
    /// Skipped because an earlier turn failed.
    Skipped,
}

/// A problem of a case.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of problem.
    pub kind: FailureKind,
    /// The field of the YAML it is about, such as `expected_tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The turn of the conversation, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// The message; may have several lines.
    pub text: String,
    /// The next action, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kinds of [`Failure`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The agent failed in the turn: turn limit, own budget, refusal, empty answer.
    Agent,
    /// The answer was cut off at `max_tokens`, and the agent file makes that a failure.
    Truncated,
    /// The turn took too long.
    Timeout,
    /// The endpoint refused the credentials.
    Credentials,
    /// The model's endpoint returned an error, or did not answer.
    Provider,
    /// A tool could not be run at all.
    Tool,
    /// The recording has no answer.
    Replay,
    /// Something other than this run cancelled the turn.
    Cancelled,
    /// The backend failed in another way.
    Backend,
    /// Files of the question could not be read.
    Files,
    /// Skipped because an earlier turn failed.
    Skipped,
    /// An expectation about tools was not met.
    Expectation,
    /// The checks could not be set up.
    Checks,
    /// An error inside this program.
    Internal,
    /// Read from a file that does not record the kind.
    #[serde(other)]
    Other,
}

impl Failure {
    /// A failure without a field, a turn or a hint.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            field: None,
            turn: None,
            text: text.into(),
            hint: None,
        }
    }

    /// An expectation of this field that was not met.
    pub fn of_field(field: &str, text: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(FailureKind::Expectation, text)
        }
    }

    /// Everything except kind and hint, on the lines of its text.
    pub fn line(&self) -> String {
        let turn = self.turn.map(|turn| format!("turn {turn}: ")).unwrap_or_default();
        let field = self.field.as_ref().map(|field| format!("{field}: "));
        format!("{turn}{}{}", field.unwrap_or_default(), self.text)
    }
}
