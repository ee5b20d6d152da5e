//! What a recording holds of the events of a turn.

use holodeck_backend_api::{Approval, ApprovalDecision, BackendEvent, ExecutionResult, Outcome, ResultFold};
use holodeck_model::Redactor;

/// How a turn ended that the agent answered.
const COMPLETED: &str = "completed";

/// Adds an event to those of a turn. Pieces of text that follow each other become one event.
pub(crate) fn append(events: &mut Vec<BackendEvent>, event: &BackendEvent) {
    if let Some(next) = recorded(event)
        && !events.last_mut().is_some_and(|last| extend(last, &next))
    {
        events.push(next);
    }
}

/// `event` as it is recorded; `None` for waits, notices, the end, and names of a conversation that a replay does not
/// have.
fn recorded(event: &BackendEvent) -> Option<BackendEvent> {
    Some(match event {
        // A signature means something only to the endpoint.
        BackendEvent::ThinkingEnd { .. } => BackendEvent::ThinkingEnd { signature: None },
        BackendEvent::Nested {
            parent_call_id,
            event,
        } => BackendEvent::Nested {
            parent_call_id: parent_call_id.clone(),
            event: Box::new(recorded(event)?),
        },
        BackendEvent::Thinking { .. }
        | BackendEvent::Text { .. }
        | BackendEvent::ToolCall(_)
        | BackendEvent::ApprovalDecided(_)
        | BackendEvent::ApprovalAsked(_)
        | BackendEvent::ApprovalAnswered { .. }
        | BackendEvent::ToolResult(_)
        | BackendEvent::Usage(_)
        | BackendEvent::TurnEnd { .. }
        | BackendEvent::StructuredOutput(_) => event.clone(),
        _ => return None,
    })
}

/// Appends the text of `next` to `last` if both belong to one piece of text.
fn extend(last: &mut BackendEvent, next: &BackendEvent) -> bool {
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
        ) if parent == other => extend(event, more),
        _ => false,
    }
}

/// Takes secrets out of an event.
pub(crate) fn redact(event: &mut BackendEvent, redactor: &Redactor) {
    let clean = |text: &mut String| *text = redactor.text(text).into_owned();
    match event {
        BackendEvent::Thinking { text } | BackendEvent::Text { text } => clean(text),
        BackendEvent::ToolCall(call) => redactor.value(&mut call.arguments),
        BackendEvent::ApprovalAsked(ask) => {
            redactor.value(&mut ask.arguments);
            ask.description.iter_mut().for_each(clean);
        }
        BackendEvent::ApprovalDecided(Approval { decision, .. })
        | BackendEvent::ApprovalAnswered { decision, .. } => match decision {
            ApprovalDecision::Approve { arguments } => {
                if let Some(arguments) = arguments {
                    redactor.value(arguments);
                }
            }
            ApprovalDecision::Reject { reason } | ApprovalDecision::Terminate { reason } => clean(reason),
            ApprovalDecision::Withdrawn => {}
        },
        BackendEvent::ToolResult(result) => clean(&mut result.result),
        BackendEvent::Nested { event, .. } => redact(event, redactor),
        BackendEvent::StructuredOutput(value) => redactor.value(value),
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

/// How a turn ended, as a word.
pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    outcome
        .reason()
        .map_or_else(|| COMPLETED.to_owned(), std::borrow::Cow::into_owned)
}

/// The reverse of [`outcome_text`].
pub(crate) fn outcome(text: &str) -> Outcome {
    Outcome::from_reason(Some(text).filter(|text| *text != COMPLETED))
}
