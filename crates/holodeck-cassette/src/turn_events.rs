//! The events of a turn as a recording stores them.

use holodeck_backend_api::{Approval, BackendEvent, ExecutionResult, Outcome, ResultFold, StopReason};
use holodeck_model::Redactor;

/// The recorded outcome of a turn that the agent answered.
const COMPLETED: &str = "completed";

/// Appends an event to those of a turn. Consecutive text deltas become one event.
pub(crate) fn append(events: &mut Vec<BackendEvent>, event: &BackendEvent) {
    if let Some(next) = to_recorded(event)
        && !events.last_mut().is_some_and(|last| merge_text(last, &next))
    {
        events.push(next);
    }
}

/// `event` in its recorded form; `None` for waits, notices, the end and session ids, which a replay does not have.
fn to_recorded(event: &BackendEvent) -> Option<BackendEvent> {
    Some(match event {
        // Only the endpoint can use a signature.
        BackendEvent::ThinkingEnd { .. } => BackendEvent::ThinkingEnd { signature: None },
        BackendEvent::Nested {
            parent_call_id,
            event,
        } => BackendEvent::Nested {
            parent_call_id: parent_call_id.clone(),
            event: Box::new(to_recorded(event)?),
        },
        BackendEvent::Thinking { .. }
        | BackendEvent::Text { .. }
        | BackendEvent::ToolCall(_)
        | BackendEvent::ApprovalDecided(_)
        | BackendEvent::ApprovalAsked(_)
        | BackendEvent::ApprovalAnswered { .. }
        | BackendEvent::ToolResult(_)
        | BackendEvent::Usage(_)
        | BackendEvent::OtherUsage { .. }
        | BackendEvent::Cost { .. }
        | BackendEvent::TurnEnd { .. }
        | BackendEvent::NumberOdds(_)
        | BackendEvent::StructuredOutput(_) => event.clone(),
        _ => return None,
    })
}

/// Appends the text of `next` to `last` if both belong to the same text.
fn merge_text(last: &mut BackendEvent, next: &BackendEvent) -> bool {
    match (last, next) {
        (BackendEvent::Text { text }, BackendEvent::Text { text: more })
        | (BackendEvent::Thinking { text }, BackendEvent::Thinking { text: more }) => {
            text.push_str(more);
            true
        }
        (
            BackendEvent::Nested {
                parent_call_id: parent,
                event,
            },
            BackendEvent::Nested {
                parent_call_id: other,
                event: more,
            },
        ) if parent == other => merge_text(event, more),
        _ => false,
    }
}

/// Masks the secrets in an event.
pub(crate) fn redact(event: &mut BackendEvent, redactor: &Redactor) {
    let mask = |text: &mut String| {
        redactor.mask_text_with_digests(text);
    };
    let mask_value = |value: &mut serde_json::Value| {
        redactor.mask_value_with_digests(value);
    };
    match event {
        BackendEvent::Thinking { text } | BackendEvent::Text { text } => mask(text),
        BackendEvent::ToolCall(call) => {
            mask(&mut call.call_id);
            call.edit(mask, mask_value);
        }
        BackendEvent::ApprovalAsked(ask) => {
            [&mut ask.tool_name, &mut ask.call_id].into_iter().for_each(mask);
            [&mut ask.description, &mut ask.agent_id]
                .into_iter()
                .flatten()
                .for_each(mask);
            mask_value(&mut ask.arguments);
            ask.answer_schema.as_deref_mut().into_iter().for_each(mask_value);
        }
        BackendEvent::ApprovalDecided(Approval {
            decision, call_id, ..
        })
        | BackendEvent::ApprovalAnswered { decision, call_id } => {
            mask(call_id);
            let (arguments, reason) = decision.parts_mut();
            arguments.into_iter().for_each(mask_value);
            reason.into_iter().for_each(mask);
        }
        BackendEvent::ToolResult(result) => {
            mask(&mut result.call_id);
            result.edit(mask);
        }
        BackendEvent::Nested {
            event,
            parent_call_id,
        } => {
            mask(parent_call_id);
            redact(event, redactor);
        }
        BackendEvent::StructuredOutput(value) => mask_value(value),
        BackendEvent::OtherUsage { model, .. } => model.iter_mut().for_each(mask),
        BackendEvent::TurnEnd {
            stop_reason,
            message_id,
            model,
        } => {
            let mut word = stop_reason.as_str().to_owned();
            if redactor.mask_text_with_digests(&mut word) {
                *stop_reason = StopReason::from(word);
            }
            [message_id, model].into_iter().flatten().for_each(mask);
        }
        _ => {}
    }
}

/// The result of a turn with these events and this outcome.
pub(crate) fn result(events: &[BackendEvent], outcome: Outcome) -> ExecutionResult {
    let mut fold = ResultFold::new();
    for event in events {
        fold.observe(event);
    }
    fold.finish(outcome)
}

/// The recorded form of an outcome.
pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    outcome
        .reason()
        .map_or_else(|| COMPLETED.to_owned(), std::borrow::Cow::into_owned)
}

/// The reverse of [`outcome_text`].
pub(crate) fn outcome(text: &str) -> Outcome {
    Outcome::from_reason(Some(text).filter(|text| *text != COMPLETED))
}
