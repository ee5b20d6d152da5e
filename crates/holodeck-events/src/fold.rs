//! Reads results and conversations back from recorded events.
//!
//! The result must equal that of the live turn.

use std::time::Duration;

use holodeck_backend_api::{
    BackendEvent, ExecutionResult, HistoryFold, HistoryItem, Outcome, Redactions, ResultFold, StopReason,
    ToolCall, ToolResult,
};
use holodeck_model::events::{
    AgentEvent, AgentExecutionResult, Complete, CompleteReason, EventBody, RunTotals,
    ToolResult as ResultBody,
};
use holodeck_model::{CallDetails, Executor};
use serde_json::Value;

use crate::{
    recorder::{EXECUTION_FIELD, PASSAGES_FIELD, UNREPORTED_FIELD},
    terminal::code,
};

/// The result of a run from its events; `None` while it is not over. It equals the direct fold of the backend's stream, but
/// for the reason for which the last message ended, which is not known: the events have it in the form of the contract.
/// Chunks are not needed.
pub fn execution_result<'a>(events: impl IntoIterator<Item = &'a AgentEvent>) -> Option<ExecutionResult> {
    fold_run(events).ok()
}

/// The result of a run; while it is not over, what has arrived, and the second value is `false`.
pub(crate) fn result_so_far<'a>(events: impl IntoIterator<Item = &'a AgentEvent>) -> (ExecutionResult, bool) {
    match fold_run(events) {
        Ok(result) => (result, true),
        Err(fold) => {
            let outcome = Outcome::from_reason(Some("the run is not over"));
            (finish(*fold, outcome, &RunTotals::default()), false)
        }
    }
}

/// The result of a run, or the fold of one that is not over.
fn fold_run<'a>(
    events: impl IntoIterator<Item = &'a AgentEvent>,
) -> Result<ExecutionResult, Box<ResultFold>> {
    let mut fold = ResultFold::new();
    let mut turn = None;
    for event in events {
        if let Some((outcome, totals)) = end_of(&event.body) {
            if turn.is_some() && totals.num_turns.is_none() {
                fold.observe(&message_end());
            }
            let execution = event.extra.get(EXECUTION_FIELD).cloned();
            if let Some(execution) = execution.and_then(|value| serde_json::from_value(value).ok()) {
                fold.observe(&BackendEvent::Executed(execution));
            }
            let reported = event.extra.get(PASSAGES_FIELD).cloned();
            if let Some(passages) = reported.and_then(|value| serde_json::from_value(value).ok()) {
                fold.observe(&BackendEvent::Passages(passages));
            }
            let unreported = event.extra.get(UNREPORTED_FIELD).cloned();
            if let Some(parts) = unreported.and_then(|value| serde_json::from_value(value).ok()) {
                fold.observe(&BackendEvent::Unreported(parts));
            }
            return Ok(finish(fold, outcome, totals));
        }
        if event.meta.parent_tool_use_id.is_some() {
            continue;
        }
        let Some(emitted) = backend_event(&event.body) else {
            continue;
        };
        let begins = !matches!(emitted, BackendEvent::ToolResult(_));
        if begins && turn != Some(event.meta.turn) {
            if turn.is_some() {
                fold.observe(&message_end());
            }
            turn = Some(event.meta.turn);
        }
        fold.observe(&emitted);
    }
    Err(Box::new(fold))
}

/// The result of a run in the form of the event contract; `None` while it is not over.
pub fn agent_execution_result<'a>(
    events: impl IntoIterator<Item = &'a AgentEvent> + Clone,
) -> Option<AgentExecutionResult> {
    let result = execution_result(events.clone())?;
    let mut summary = AgentExecutionResult {
        response: result.response,
        success: result.outcome == Outcome::Completed,
        error: result.outcome.reason().map(Into::into),
        usage: result.token_usage.map(Into::into),
        num_turns: Some(result.num_turns),
        ..AgentExecutionResult::default()
    };
    for event in events {
        summary.session_id = event.meta.session_id.clone().unwrap_or(summary.session_id);
        summary.run_id = event.meta.run_id.clone().or(summary.run_id);
        match &event.body {
            EventBody::Complete(Complete { totals, warnings, .. }) => {
                summary.duration_ms = totals.duration_ms;
                summary.warnings.clone_from(warnings);
            }
            EventBody::Error(error) => {
                summary.duration_ms = error.totals.duration_ms;
                if matches!(result.outcome, Outcome::ToolFailed { .. }) {
                    // It may also say which login is missing.
                    summary.error = Some(error.error.clone());
                }
            }
            _ if event.meta.parent_tool_use_id.is_some() => {}
            EventBody::Message(message) => summary.message_id = Some(message.message_id.clone()),
            EventBody::ToolUse(call) if !summary.tools_used.contains(&call.tool_name) => {
                summary.tools_used.push(call.tool_name.clone());
            }
            _ => {}
        }
        if event.body.is_terminal() {
            break;
        }
    }
    Some(summary)
}

/// The history before a session's next turn: each message of the person that was answered, with the agent's texts, calls
/// and results in their order; nested agents are a part of the call that started them. Of a run that a person stopped or
/// whose process ended, it has what had arrived. As in a live conversation, a run that failed, and a message to which
/// nothing had arrived, are not part of it.
pub fn history<'a>(events: impl IntoIterator<Item = &'a AgentEvent>) -> Vec<HistoryItem> {
    let mut history = Vec::new();
    let mut run = Vec::new();
    for event in events {
        if matches!(event.body, EventBody::UserMessageConfirmed(_)) {
            run.clear();
        }
        run.push(event);
        if event.body.is_terminal() {
            history.extend(history_of_run(&run));
            run.clear();
        }
    }
    history
}

/// The part of a run that remains in the conversation.
fn history_of_run(run: &[&AgentEvent]) -> Vec<HistoryItem> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else {
        return Vec::new();
    };
    let EventBody::UserMessageConfirmed(message) = &first.body else {
        return Vec::new();
    };
    let mut fold = HistoryFold::new(&message.content);
    let mut cut_turn = None;
    for event in run.iter().filter(|event| event.meta.parent_tool_use_id.is_none()) {
        let Some(emitted) = backend_event(&event.body) else {
            continue;
        };
        // The calls of a message that was cut off follow it. In another turn, the provider was asked again.
        if cut_turn.is_some_and(|turn| turn != event.meta.turn) {
            fold.observe(&end_of_message(StopReason::aborted()));
        }
        cut_turn = None;
        fold.observe(&emitted);
        match &event.body {
            EventBody::Message(message) if message.partial => cut_turn = Some(event.meta.turn),
            EventBody::Message(_) => fold.observe(&message_end()),
            _ => {}
        }
    }
    let was_stopped = match &last.body {
        EventBody::Complete(end) => end.reason == CompleteReason::UserCancelled,
        EventBody::Error(end) => end.code == code::INTERRUPTED,
        _ => false,
    };
    if was_stopped {
        return fold.interrupted();
    }
    match execution_result(run.iter().copied()) {
        // An execution sees no conversation, and only its question and answer become a part of it.
        Some(result) if is_answered(&result) && was_executed(&result) => {
            let question = without_command(&message.content, &result);
            vec![
                HistoryItem::user(question),
                HistoryItem::assistant(result.response),
            ]
        }
        Some(result) if is_answered(&result) => fold.answered(),
        _ => Vec::new(),
    }
}

/// Whether the facade of routing executed the message.
fn was_executed(result: &ExecutionResult) -> bool {
    let execution = result.execution.as_deref();
    execution.is_some_and(|execution| execution.executor != Some(Executor::Agent))
}

/// The question of a message that may name its command with its first word.
fn without_command<'a>(message: &'a str, result: &ExecutionResult) -> &'a str {
    let command = result
        .execution
        .as_deref()
        .map(|execution| execution.command_name.as_str());
    let named = message.trim_start().strip_prefix('/').zip(command);
    let rest = named.and_then(|(named, command)| {
        let (name, rest) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
        name.eq_ignore_ascii_case(command).then(|| rest.trim_start())
    });
    rest.unwrap_or(message)
}

/// Whether a live conversation continues after this result.
fn is_answered(result: &ExecutionResult) -> bool {
    matches!(result.outcome, Outcome::Completed | Outcome::Refused) && !result.response.trim().is_empty()
}

/// The event of a backend from which this was recorded.
pub(crate) fn backend_event(body: &EventBody) -> Option<BackendEvent> {
    Some(match body {
        EventBody::Thinking(thinking) if !thinking.content.is_empty() => BackendEvent::Thinking {
            text: thinking.content.clone(),
        },
        EventBody::Message(message) => BackendEvent::Text {
            text: message.content.clone(),
        },
        EventBody::ToolUse(call) => BackendEvent::ToolCall(ToolCall {
            name: call.tool_name.clone(),
            arguments: call.args.clone(),
            call_id: call.tool_use_id.clone(),
            provider_fields: call
                .provider_fields
                .as_ref()
                .and_then(|fields| serde_json::from_value(fields.clone()).ok()),
        }),
        EventBody::ToolResult(result) if !result.synthetic => BackendEvent::ToolResult(ToolResult {
            call_id: result.tool_use_id.clone(),
            name: result.tool_name.clone(),
            result: text_of(result),
            is_error: !result.success,
            duration_ms: result.duration_ms,
            details: CallDetails {
                truncated: result.truncated,
                ..result.details.clone()
            },
        }),
        _ => return None,
    })
}

/// The result as the model gets it.
pub(crate) fn text_of(result: &ResultBody) -> String {
    match &result.result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn end_of(body: &EventBody) -> Option<(Outcome, &RunTotals)> {
    Some(match body {
        EventBody::Complete(end) => {
            let outcome = match &end.reason {
                CompleteReason::Success => Outcome::Completed,
                CompleteReason::MaxTurns => Outcome::MaxTurns,
                CompleteReason::UserCancelled => Outcome::from_reason(Some("cancelled")),
                other => Outcome::from_reason(Some(end.error.as_deref().unwrap_or(other.as_str()))),
            };
            (outcome, &end.totals)
        }
        EventBody::Error(end) => {
            let mut outcome = Outcome::from_reason(Some(&end.error));
            if let Outcome::ToolFailed { name, reason } = &mut outcome {
                let details = end.details.as_ref();
                let known = |field: &str| details.and_then(|details| details.get(field)?.as_str());
                *reason = known("reason").map(str::to_owned);
                // The text may say more than the name.
                if let Some(known) = known("toolName") {
                    known.clone_into(name);
                }
            }
            (outcome, &end.totals)
        }
        _ => return None,
    })
}

fn finish(mut fold: ResultFold, outcome: Outcome, totals: &RunTotals) -> ExecutionResult {
    if let Some(usage) = totals.usage {
        fold.observe(&BackendEvent::Usage(usage.into()));
    }
    if let Some(usd) = totals.cost_usd {
        fold.observe(&BackendEvent::Cost { usd });
    }
    if let Some(value) = &totals.structured_output {
        fold.observe(&BackendEvent::StructuredOutput(value.clone()));
    }
    if let Some(latency) = totals.recorded_latency_ms {
        fold.observe(&BackendEvent::Replayed {
            latency: Duration::from_millis(latency),
            redacted: Redactions::default(),
        });
    }
    let mut result = fold.finish(outcome);
    result.num_turns = totals.num_turns.unwrap_or(result.num_turns);
    result.model.clone_from(&totals.model);
    result.finish_reason = None;
    result
}

fn message_end() -> BackendEvent {
    end_of_message(StopReason::EndTurn)
}

fn end_of_message(stop_reason: StopReason) -> BackendEvent {
    BackendEvent::TurnEnd {
        stop_reason,
        message_id: None,
        model: None,
    }
}
