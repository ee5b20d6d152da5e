//! The stored record of a turn, before it is graded.

use holodeck_backend_api::{BackendError, ExecutionResult, Outcome, Redactions, StopReason};
use holodeck_events::Trajectory;
use holodeck_model::{Evidence, ExecutionState, Failure, FailureKind, Spent, TokenUsage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The record of one turn, without grading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The question as written in the YAML.
    pub input: String,
    /// How the attached files were processed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Value>,
    /// How the turn ended.
    pub state: ExecutionState,
    /// The answer with its tool calls; after a failure, the content received so far.
    pub result: ExecutionResult,
    /// Tokens of the agent and of model calls made by its tools; absent if a part is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Cost of those tokens; absent if the tokens or a price are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Wall time without pauses.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// The time that is compared with a latency limit: wall time, or the recorded time in a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether a part of the answer is missing or may be. [`ExecutionResult::truncated_by`] is the provider's reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Events that are not part of the result: decisions about tool calls, nested agents, notices. Earlier versions
    /// stored only the decisions, as `approvals`.
    #[serde(default, alias = "approvals", skip_serializing_if = "Trajectory::is_empty")]
    pub trajectory: Trajectory,
    /// Why the turn failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// The parts that were masked before the record was stored, or in the recording that it comes from.
    #[serde(default, skip_serializing_if = "Redactions::is_empty")]
    pub redacted: Redactions,
    /// The W3C `traceparent` of its span, if it was traced: results of its evaluation belong there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl Default for TurnRecord {
    /// A turn for which no model was asked.
    fn default() -> Self {
        Self {
            input: String::new(),
            files: Vec::new(),
            state: ExecutionState::default(),
            result: ExecutionResult::unasked(),
            usage: None,
            cost_usd: None,
            elapsed_ms: 0,
            latency_ms: None,
            truncated: false,
            trajectory: Trajectory::default(),
            failures: Vec::new(),
            redacted: Redactions::default(),
            traceparent: None,
        }
    }
}

impl TurnRecord {
    /// The notes on the attached files, such as a hidden sheet, each with the file.
    pub fn file_notes(&self) -> impl Iterator<Item = String> {
        self.files.iter().filter_map(|file| {
            let metadata = file.get("metadata")?;
            let note = metadata.get("warning")?.as_str()?;
            let name = metadata.get("path").or_else(|| metadata.get("url"))?.as_str()?;
            Some(format!("file `{name}`: {note}"))
        })
    }

    /// The record of a turn that ended with this result elsewhere, such as in a conversation.
    pub fn of_result(
        input: String,
        result: ExecutionResult,
        trajectory: Trajectory,
        elapsed_ms: u64,
    ) -> Self {
        Self {
            input,
            files: Vec::new(),
            state: state_of(&result),
            usage: result.token_usage,
            cost_usd: result.cost_usd,
            elapsed_ms,
            latency_ms: (!result.lacks(Evidence::Latency)).then_some(elapsed_ms),
            truncated: result.truncated_by.is_some(),
            trajectory,
            failures: describe_outcome(&result.outcome).into_iter().collect(),
            redacted: Redactions::default(),
            traceparent: None,
            result,
        }
    }

    /// A turn that was not run because an earlier one failed.
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

    /// Why a part of the answer is missing or may be; `None` for a complete one.
    pub fn truncation(&self) -> Option<&StopReason> {
        // Earlier versions stored no reason.
        static OF_EARLIER_VERSIONS: StopReason = StopReason::MaxTokens;
        let reason = self.result.truncated_by.as_ref();
        self.truncated.then(|| reason.unwrap_or(&OF_EARLIER_VERSIONS))
    }

    /// Calls that are no turn, such as those of an embedder.
    pub fn of_calls(spent: Spent) -> Self {
        let mut record = Self {
            usage: spent.tokens,
            cost_usd: spent.cost_usd,
            ..Self::default()
        };
        record.result.num_turns = u32::try_from(spent.calls).unwrap_or(u32::MAX);
        record
    }

    /// The cost of its model calls.
    pub fn spent(&self) -> Spent {
        Spent {
            calls: self.result.num_turns.into(),
            tokens: self.usage,
            cost_usd: self.cost_usd,
        }
    }

    /// The answer, if any: text received before an error counts, an empty one does not.
    pub fn answer(&self) -> Option<&str> {
        let failed = matches!(self.state, ExecutionState::Error | ExecutionState::Skipped);
        Some(self.result.response.as_str()).filter(|text| !failed || !text.is_empty())
    }
}

/// The state of a turn that ended with this result.
pub(crate) fn state_of(result: &ExecutionResult) -> ExecutionState {
    if result.outcome.is_agent_failure() {
        ExecutionState::AgentFailed
    } else if result.is_error() {
        ExecutionState::Error
    } else {
        ExecutionState::Completed
    }
}

/// The failure that a record stores for an outcome; `None` if the turn succeeded.
pub(crate) fn describe_outcome(outcome: &Outcome) -> Option<Failure> {
    let reason = outcome.reason()?;
    Some(match outcome {
        Outcome::ToolFailed {
            reason: Some(detail), ..
        } => Failure::new(FailureKind::Tool, format!("{reason} ({detail})")),
        _ => Failure::new(FailureKind::Agent, reason),
    })
}

/// The failure that a record stores for a backend's error. `limit` names the setting of the time-out.
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
    Failure {
        hint: error.explanation().hint,
        ..Failure::new(kind, text)
    }
}

#[cfg(test)]
mod tests {
    use holodeck_backend_api::{Approval, ApprovalDecision, DecidedBy};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_that_an_earlier_version_stored_are_read() {
        let stored = json!({
            "input": "q",
            "state": "completed",
            "result": {"response": "done"},
            "approvals": [
                {"call_id": "c1", "decision": {"reject": {"reason": "no"}}, "by": "rule"},
                {"call_id": "c2", "decision": "withdrawn", "by": "person"},
            ],
        });
        let record: TurnRecord = serde_json::from_value(stored).unwrap();
        let approvals: Vec<_> = record.trajectory.approvals().cloned().collect();
        let approval = |call_id: &str, decision, by| Approval {
            call_id: call_id.to_owned(),
            decision,
            by,
            basis: None,
        };
        assert_eq!(
            approvals,
            [
                approval("c1", ApprovalDecision::reject("no"), DecidedBy::Rule),
                approval("c2", ApprovalDecision::Withdrawn, DecidedBy::Person),
            ]
        );
        let again = serde_json::to_value(&record).unwrap();
        assert_eq!(again.get("approvals"), None);
        assert_eq!(serde_json::from_value::<TurnRecord>(again).unwrap(), record);
    }
}
