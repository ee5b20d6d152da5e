use holodeck_backend_api::{BackendError, Outcome, StopReason, TokenUsage};

use super::TurnDone;
use crate::wire::{ApiRetry, AssistantFrame, ResultFrame, WireUsage};

/// What the turn showed before its result.
pub(super) struct Seen<'a> {
    /// An object was asked for.
    pub(super) structured: bool,
    pub(super) was_interrupted: bool,
    /// The error in the place of an answer.
    pub(super) reported: Option<&'a AssistantFrame>,
    /// Of the last message.
    pub(super) stop_reason: Option<&'a StopReason>,
}

/// What a `result` means. A count of turns means nothing here: only the words decide.
pub(super) fn of(result: &ResultFrame, seen: &Seen<'_>) -> TurnDone {
    let terminal = result.terminal_reason.as_deref().unwrap_or_default();
    match result.subtype.as_str() {
        "error_max_turns" => TurnDone::Ended(Outcome::MaxTurns),
        "error_max_budget_usd" => TurnDone::Ended(Outcome::BudgetExceeded),
        "error_max_structured_output_retries" => TurnDone::Ended(Outcome::Failed {
            reason: exhausted(&result.errors),
        }),
        "error_during_execution" if terminal.starts_with("aborted") || seen.was_interrupted => {
            TurnDone::Interrupted
        }
        "success" if !result.is_error => answered(result, seen),
        _ => failed(result, seen),
    }
}

fn answered(result: &ResultFrame, seen: &Seen<'_>) -> TurnDone {
    let stop_reason = match &result.stop_reason {
        Some(reason) => StopReason::from(reason.to_owned()),
        None => seen.stop_reason.cloned().unwrap_or(StopReason::EndTurn),
    };
    if seen.structured && result.structured_output.is_none() && stop_reason != StopReason::Refusal {
        return TurnDone::Ended(Outcome::Failed {
            reason: NEVER_CALLED.to_owned(),
        });
    }
    TurnDone::Answered {
        stop_reason,
        structured: result.structured_output.clone().filter(|_| seen.structured),
    }
}

/// The model wrote prose in the place of the object, twice.
pub(super) const NEVER_CALLED: &str =
    "the answer is not in the agent's `response_format`: the model never gave a structured answer";

/// The CLI checked each attempt and told the model what is wrong with it.
fn exhausted(errors: &[String]) -> String {
    let why = errors.first().map_or_else(
        || "no attempt satisfied it".to_owned(),
        |error| lower_first(error),
    );
    format!("the answer is not in the agent's `response_format`: {why}")
}

fn failed(result: &ResultFrame, seen: &Seen<'_>) -> TurnDone {
    if result.stop_reason.as_deref() == Some("refusal") {
        return TurnDone::Ended(Outcome::Refused);
    }
    let said = result.result.clone().filter(|text| !text.trim().is_empty());
    let message = said
        .or_else(|| (!result.errors.is_empty()).then(|| result.errors.join("\n")))
        .unwrap_or_else(|| format!("the CLI ended the turn with `{}` and no reason", result.subtype));
    let is_api_error = seen.reported.is_some()
        || result.api_error_status.is_some()
        || result.terminal_reason.as_deref() == Some("api_error");
    if !is_api_error {
        return TurnDone::Failed(BackendError::Session { message });
    }
    let reported = seen.reported.and_then(|frame| frame.error.as_deref());
    if reported == Some("max_output_tokens") {
        // The endpoint did answer, and at length.
        return TurnDone::Ended(Outcome::Failed { reason: message });
    }
    let status = result
        .api_error_status
        .or_else(|| seen.reported.and_then(|frame| frame.api_error_status))
        .or_else(|| status_of(reported?));
    TurnDone::Failed(BackendError::Provider {
        status,
        code: result
            .api_error_type
            .clone()
            .or_else(|| reported.map(str::to_owned)),
        message,
        param: None,
        retryable: is_retryable(status),
        retry_after: None,
    })
}

/// The error of a retry notice that no retry can mend.
pub(super) fn refused_credentials(retry: &ApiRetry) -> Option<BackendError> {
    let status = retry.status.filter(|status| matches!(status, 401 | 403))?;
    let said = match &retry.error {
        Some(error) => format!("{status}, {error}"),
        None => status.to_string(),
    };
    Some(BackendError::Provider {
        status: Some(status),
        code: retry.error.clone(),
        message: format!("the model's endpoint refused the credentials ({said})"),
        param: None,
        retryable: false,
        retry_after: None,
    })
}

/// The status that the CLI's word for an error stands for, where it tells none: a request that was never sent.
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

/// Tokens that were used and not yet reported. What the CLI counted for every model is the truth; an older CLI reports
/// the main agent's alone, and its subagents are added by their own messages.
pub(super) fn uncounted(result: &ResultFrame, counted: TokenUsage, nested: TokenUsage) -> Option<TokenUsage> {
    let main = result.usage.map(WireUsage::tokens);
    let truth = match (result.all_usage.map(WireUsage::tokens), main) {
        (Some(all), main) => larger(all, main.unwrap_or_default()),
        (None, main) => {
            let mut sum = main?;
            sum += nested;
            sum
        }
    };
    let missing = TokenUsage {
        prompt_tokens: truth.prompt_tokens.saturating_sub(counted.prompt_tokens),
        completion_tokens: truth.completion_tokens.saturating_sub(counted.completion_tokens),
        total_tokens: truth.total_tokens.saturating_sub(counted.total_tokens),
        cache_read_tokens: truth.cache_read_tokens.saturating_sub(counted.cache_read_tokens),
        cache_creation_tokens: truth
            .cache_creation_tokens
            .saturating_sub(counted.cache_creation_tokens),
        reasoning_tokens: truth.reasoning_tokens.saturating_sub(counted.reasoning_tokens),
    };
    (missing != TokenUsage::default()).then_some(missing)
}

fn larger(one: TokenUsage, other: TokenUsage) -> TokenUsage {
    if other.total_tokens > one.total_tokens {
        other
    } else {
        one
    }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
