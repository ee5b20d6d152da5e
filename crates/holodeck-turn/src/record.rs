use holodeck_backend_api::{Approval, BackendError, ExecutionResult};
use holodeck_model::{ExecutionState, Failure, FailureKind, TokenUsage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One turn as it went, without any grading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The question as the YAML has it.
    pub input: String,
    /// What became of the files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Value>,
    /// How it ended.
    pub state: ExecutionState,
    /// The answer with its tool calls; on a bad end, what had arrived.
    pub result: ExecutionResult,
    /// Tokens of the agent and of the model calls its tools made; absent when a part is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Price of those tokens; absent when they or a price are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Wall time without pauses.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// What a latency limit is compared with: wall time, or in a replay the recorded time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the answer was cut off at `max_tokens`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Every decision about its tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// Why it did not end well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What of it was masked before it was stored.
    #[serde(default, skip_serializing_if = "Redacted::is_nothing")]
    pub redacted: Redacted,
}

/// Which of the texts that checks read were masked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    /// The answer's text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer: bool,
    /// The answer as an object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub object: bool,
    /// Calls with masked arguments, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Calls with masked results, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
}

impl Redacted {
    /// Whether every text is as it was.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether checks could find something else than in the answer as it was given.
    pub fn concerns_checks(&self) -> bool {
        self.answer || self.object || !self.arguments.is_empty()
    }
}

impl TurnRecord {
    /// A turn that was not asked, because earlier ones could not be ended.
    pub fn skipped(input: &str) -> Self {
        Self {
            input: input.to_owned(),
            state: ExecutionState::Skipped,
            failures: vec![Failure::new(
                FailureKind::Skipped,
                "skipped because an earlier turn failed",
            )],
            ..Self::default()
        }
    }

    /// The answer, if there is one: what arrived before an error counts, nothing at all does not.
    pub fn answer(&self) -> Option<&str> {
        let failed = matches!(self.state, ExecutionState::Error | ExecutionState::Skipped);
        Some(self.result.response.as_str()).filter(|text| !failed || !text.is_empty())
    }
}

/// A backend's error as a record keeps it. `limit` names what set the time-out.
pub fn describe_error(error: &BackendError, limit: &str) -> Failure {
    let kind = match error {
        BackendError::Timeout { .. } => FailureKind::Timeout,
        error if error.is_credentials() => FailureKind::Credentials,
        BackendError::Provider { .. } => FailureKind::Provider,
        BackendError::Tool { .. } => FailureKind::Tool,
        BackendError::ReplayMiss { .. } => FailureKind::Replay,
        BackendError::Cancelled => FailureKind::Cancelled,
        _ => FailureKind::Backend,
    };
    let text = match error {
        BackendError::Timeout { after, .. } => format!("{error} ({} s, {limit})", after.as_secs_f64()),
        BackendError::Tool { reason, .. } => format!("{error} ({reason})"),
        BackendError::Cancelled => "the turn was cancelled, but not by this run".to_owned(),
        other => other.to_string(),
    };
    Failure::with_hint(kind, text)
}
