//! Creates the last event of a run from its result or error.

use std::borrow::Cow;

use holodeck_backend_api::{BackendError, ExecutionResult, Outcome};
use holodeck_model::events::{
    Complete, CompleteReason, EventBody, Interruption, RunError, RunTotals, StopReason,
};
use serde_json::{Value, json};

/// Codes of `error` events.
pub(crate) mod code {
    pub(crate) const BACKEND: &str = "BACKEND_ERROR";
    pub(crate) const TERMINATED: &str = "SUBPROCESS_TERMINATED";
    pub(crate) const TRUNCATED: &str = "STREAM_TRUNCATED";
    pub(crate) const PERSISTENCE: &str = "PERSISTENCE_FAILED";
    pub(crate) const INTERRUPTED: &str = "RUN_INTERRUPTED";
}

/// The last event of a run.
pub(crate) fn terminal(
    result: &ExecutionResult,
    error: Option<&BackendError>,
    stop_reason: Option<StopReason>,
    warnings: Vec<String>,
    duration_ms: u64,
) -> EventBody {
    let totals = totals(result, duration_ms);
    let reason = result.error_reason();
    let completed = match (error, &result.outcome) {
        (Some(BackendError::Cancelled), _) => Some(CompleteReason::UserCancelled),
        (None, Outcome::Completed) => Some(CompleteReason::Success),
        (None, Outcome::MaxTurns) => Some(CompleteReason::MaxTurns),
        (None, Outcome::Refused | Outcome::Terminated { .. }) => Some(CompleteReason::Error),
        _ => None,
    };
    let Some(completed) = completed else {
        return EventBody::Error(RunError {
            error: with_login(
                reason.map(Cow::into_owned).unwrap_or_default(),
                &result.outcome,
                error,
            ),
            code: code_of(&result.outcome, error).to_owned(),
            details: error.and_then(details).or_else(|| tool_details(&result.outcome)),
            retryable: error.is_some_and(BackendError::is_retryable),
            totals,
        });
    };
    let error = (completed == CompleteReason::Error).then_some(reason).flatten();
    let truncation = result.truncated_by.as_ref().map(StopReason::truncation_note);
    EventBody::Complete(Complete {
        reason: completed,
        stop_reason,
        error: error.map(Cow::into_owned),
        warnings: warnings.into_iter().chain(truncation).collect(),
        truncated: result.truncated_by.is_some(),
        cited_files: Vec::new(),
        totals,
    })
}

/// Why the run's open messages are cut off; `None` when it ended well.
pub(crate) fn interruption(result: &ExecutionResult, error: Option<&BackendError>) -> Option<Interruption> {
    match (error, &result.outcome) {
        (Some(BackendError::Cancelled), _) => Some(Interruption::UserCancelled),
        (None, Outcome::Completed | Outcome::MaxTurns | Outcome::Refused | Outcome::EmptyResponse) => None,
        _ => Some(Interruption::Error),
    }
}

fn totals(result: &ExecutionResult, duration_ms: u64) -> RunTotals {
    RunTotals {
        usage: result.token_usage.map(Into::into),
        cost_usd: result.cost_usd,
        num_turns: Some(result.num_turns),
        duration_ms: Some(duration_ms),
        model: result.model.clone(),
        structured_output: result.structured_output.clone(),
        recorded_latency_ms: result
            .recorded_latency
            .map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
    }
}

fn code_of(outcome: &Outcome, error: Option<&BackendError>) -> &'static str {
    match (outcome, error) {
        (Outcome::SubprocessTerminated, _) => code::TERMINATED,
        (_, Some(error)) if error.is_truncated() => code::TRUNCATED,
        _ => code::BACKEND,
    }
}

/// An error text that also says which login is missing, if that is why the tool could not be run.
fn with_login(error: String, outcome: &Outcome, cause: Option<&BackendError>) -> String {
    const COMMAND: &str = "`holodeck mcp login ";
    let ((Some(BackendError::Tool { reason, .. }), _)
    | (
        _,
        Outcome::ToolFailed {
            reason: Some(reason), ..
        },
    )) = (cause, outcome)
    else {
        return error;
    };
    let named = reason.split_once(COMMAND).map(|(_, rest)| rest);
    let named = named.and_then(|rest| rest.split([' ', '`']).next());
    match named {
        Some(server) => format!("{error}: MCP server `{server}` needs a login: {COMMAND}{server}`"),
        None => error,
    }
}

/// The tool that could not be run, and why.
fn tool_details(outcome: &Outcome) -> Option<Value> {
    match outcome {
        Outcome::ToolFailed {
            name,
            reason: Some(reason),
        } => Some(json!({ "toolName": name, "reason": reason })),
        _ => None,
    }
}

/// Details that help to find the cause of a failure, besides its text.
fn details(error: &BackendError) -> Option<Value> {
    let mut details = match error {
        BackendError::Terminated { detail } => json!({ "detail": detail }),
        BackendError::Provider { status, code, .. } if status.is_some() || code.is_some() => {
            json!({ "status": status, "code": code })
        }
        BackendError::Timeout { after, .. } => json!({ "afterSeconds": after.as_secs_f64() }),
        BackendError::Tool { name, reason } => json!({ "toolName": name, "reason": reason }),
        _ => json!({}),
    };
    let fields = details.as_object_mut()?;
    if let Some(hint) = error.explanation().hint {
        fields.insert("hint".to_owned(), hint.into());
    }
    (!fields.is_empty()).then_some(details)
}
