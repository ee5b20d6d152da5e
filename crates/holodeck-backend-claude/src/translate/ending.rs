//! Classifies the end of a turn: answered, refused, stopped by a limit, or failed.

use holodeck_backend_api::{BackendError, Outcome, StopFamily, StopReason};

use super::Ending;
use crate::wire::{ApiRetry, AssistantFrame, ResultFrame};

/// The state of the turn before its result.
pub(super) struct TurnState<'a> {
    /// Whether an object was requested.
    pub(super) structured: bool,
    /// The structured answer as the model wrote it.
    pub(super) structured_output: Option<&'a str>,
    /// The limit of an answer in tokens.
    pub(super) max_tokens: Option<u32>,
    pub(super) was_interrupted: bool,
    /// The error that the CLI reported instead of an answer.
    pub(super) error_frame: Option<&'a AssistantFrame>,
    /// The stop reason of the last message.
    pub(super) stop_reason: Option<&'a StopReason>,
}

/// Classifies a `result` by its subtype and reasons. Its number of turns is not reliable.
pub(super) fn classify(result: &ResultFrame, state: &TurnState<'_>) -> Ending {
    let terminal = result.terminal_reason.as_deref().unwrap_or_default();
    match result.subtype.as_str() {
        "error_max_turns" => Ending::Ended(Outcome::MaxTurns),
        "error_max_budget_usd" => Ending::Ended(Outcome::BudgetExceeded),
        "error_max_structured_output_retries" => Ending::Ended(Outcome::Failed {
            reason: mismatch_reason(&result.errors),
        }),
        "error_during_execution" if terminal.starts_with("aborted") || state.was_interrupted => {
            Ending::Interrupted
        }
        "success" if !result.is_error => classify_success(result, state),
        _ => classify_failure(result, state),
    }
}

fn classify_success(result: &ResultFrame, state: &TurnState<'_>) -> Ending {
    let stop_reason = match &result.stop_reason {
        Some(reason) => StopReason::from(reason.to_owned()),
        None => state.stop_reason.cloned().unwrap_or(StopReason::EndTurn),
    };
    let family = stop_reason.family();
    if family == StopFamily::Failure {
        return Ending::Failed(BackendError::Provider {
            status: None,
            code: None,
            explanation: format!("the provider did not complete its answer (stop_reason `{stop_reason}`)")
                .into(),
            param: None,
            retryable: false,
            retry_after: None,
        });
    }
    if state.structured && state.structured_output.is_none() && family != StopFamily::Refusal {
        return Ending::Ended(Outcome::Failed {
            reason: NEVER_CALLED.to_owned(),
        });
    }
    Ending::Answered {
        stop_reason,
        structured: state
            .structured_output
            .filter(|_| state.structured)
            .map(str::to_owned),
    }
}

/// The model wrote prose instead of the object, twice.
pub(super) const NEVER_CALLED: &str =
    "the answer does not match the agent's `response_format`: the model never gave a structured answer";

/// The CLI checked each attempt and reported the errors to the model.
fn mismatch_reason(errors: &[String]) -> String {
    let why = errors
        .first()
        .map_or_else(|| "no attempt matched it".to_owned(), |error| lower_first(error));
    format!("the answer does not match the agent's `response_format`: {why}")
}

fn classify_failure(result: &ResultFrame, state: &TurnState<'_>) -> Ending {
    let stop_reason = result.stop_reason.clone().map(StopReason::from);
    if stop_reason.is_some_and(|reason| reason.family() == StopFamily::Refusal) {
        return Ending::Ended(Outcome::Refused);
    }
    let text = result.result.clone().filter(|text| !text.trim().is_empty());
    let message = text
        .or_else(|| (!result.errors.is_empty()).then(|| result.errors.join("\n")))
        .unwrap_or_else(|| {
            format!(
                "the CLI ended the turn with `{}` without a reason",
                result.subtype
            )
        });
    let is_api_error = state.error_frame.is_some()
        || result.api_error_status.is_some()
        || result.terminal_reason.as_deref() == Some("api_error");
    if !is_api_error {
        return Ending::Failed(BackendError::session(message));
    }
    let reported = state.error_frame.and_then(|frame| frame.error.as_deref());
    if reported == Some("max_output_tokens") {
        // The endpoint answered, but the answer is too long. The CLI's text names a variable that is not the user's.
        let reason = match state.max_tokens {
            Some(limit) => format!(
                "the answer is longer than `max_tokens` ({limit}), also after the model continued it three times"
            ),
            None => message,
        };
        return Ending::Ended(Outcome::Failed { reason });
    }
    let status = result
        .api_error_status
        .or_else(|| state.error_frame.and_then(|frame| frame.api_error_status))
        .or_else(|| status_of(reported?));
    Ending::Failed(BackendError::Provider {
        status,
        code: result
            .api_error_type
            .clone()
            .or_else(|| reported.map(str::to_owned)),
        explanation: message.into(),
        param: None,
        retryable: is_retryable(status),
        retry_after: None,
    })
}

/// The error of a retry notice, if the credentials were refused and no retry can succeed.
pub(super) fn refused_credentials(retry: &ApiRetry) -> Option<BackendError> {
    let status = retry.status.filter(|status| matches!(status, 401 | 403))?;
    let detail = match &retry.error {
        Some(error) => format!("{status}, {error}"),
        None => status.to_string(),
    };
    Some(BackendError::Provider {
        status: Some(status),
        code: retry.error.clone(),
        explanation: format!("the model's endpoint refused the credentials ({detail})").into(),
        param: None,
        retryable: false,
        retry_after: None,
    })
}

/// The HTTP status for the CLI's error name, for errors without a status: the request was never sent.
fn status_of(error: &str) -> Option<u16> {
    match error {
        "authentication_failed" | "cloud_credential_error" => Some(401),
        "oauth_org_not_allowed" | "account_on_hold" | "verification_required" => Some(403),
        "billing_error" => Some(402),
        "invalid_request" => Some(400),
        "model_not_found" => Some(404),
        "rate_limit" => Some(429),
        "overloaded" => Some(529),
        _ => None,
    }
}

fn is_retryable(status: Option<u16>) -> bool {
    match status {
        None => true,
        Some(status) => matches!(status, 408 | 409 | 429) || status >= 500,
    }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
