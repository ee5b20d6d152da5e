//! The events of a turn as a recording stores them.

use holodeck_backend_api::{
    Approval, ApprovalDecision, BackendEvent, ExecutionResult, Outcome, ProviderFields, ResultFold,
};
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
            mask_value(&mut call.arguments);
            let fields = call.provider_fields.as_deref_mut();
            fields
                .into_iter()
                .flat_map(ProviderFields::values_mut)
                .for_each(mask_value);
        }
        BackendEvent::ApprovalAsked(ask) => {
            mask_value(&mut ask.arguments);
            ask.answer_schema.as_deref_mut().into_iter().for_each(mask_value);
            ask.description.iter_mut().for_each(mask);
        }
        BackendEvent::ApprovalDecided(Approval { decision, .. })
        | BackendEvent::ApprovalAnswered { decision, .. } => match decision {
            ApprovalDecision::Approve { arguments } => {
                if let Some(arguments) = arguments {
                    mask_value(arguments);
                }
            }
            ApprovalDecision::Reject { reason } | ApprovalDecision::Terminate { reason } => mask(reason),
            ApprovalDecision::Withdrawn => {}
        },
        BackendEvent::ToolResult(result) => {
            mask(&mut result.result);
            result.details.texts_mut().for_each(mask);
        }
        BackendEvent::Nested { event, .. } => redact(event, redactor),
        BackendEvent::StructuredOutput(value) => mask_value(value),
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
