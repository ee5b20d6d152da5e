//! The values in the columns that the tables of SQLite and PostgreSQL share.

use holodeck_model::events::{AgentEvent, EventBody, EventClass, UserMessage};
use jiff::Timestamp;

use super::{StoreError, error::repeated, user_message};

/// Indices between two durable ceilings.
const BLOCK: u64 = 1024;

/// Raises the ceiling of a session above its next index; returns whether that was necessary.
pub(super) fn raise(ceiling: &mut u64, next_index: u64) -> bool {
    let is_reached = next_index > *ceiling;
    if is_reached {
        *ceiling = next_index.saturating_add(BLOCK);
    }
    is_reached
}

pub(super) fn class_code(class: EventClass) -> i16 {
    match class {
        EventClass::Stored => 0,
        EventClass::Durable => 1,
        EventClass::Journaled => 2,
    }
}

pub(super) fn class_of(code: i16) -> EventClass {
    match code {
        0 => EventClass::Stored,
        1 => EventClass::Durable,
        _ => EventClass::Journaled,
    }
}

/// The call that an event is about.
pub(super) fn tool_use_of(event: &AgentEvent) -> Option<&str> {
    match &event.body {
        EventBody::ToolUse(call) => Some(&call.tool_use_id),
        EventBody::ToolResult(result) => Some(&result.tool_use_id),
        _ => None,
    }
}

/// The text of the person's message, if this event is one.
pub(super) fn message_in(payload: &str) -> Option<String> {
    let event: AgentEvent = serde_json::from_str(payload).ok()?;
    user_message(&event)
}

/// Why a message is refused whose client's id is that of the message in this event, which `run_id` answers.
pub(super) fn repeated_in(
    payload: &str,
    message: &UserMessage,
    run_id: String,
) -> Result<StoreError, StoreError> {
    let event: AgentEvent = serde_json::from_str(payload).map_err(StoreError::failed)?;
    Ok(match &event.body {
        EventBody::UserMessageConfirmed(sent) => repeated(sent, message, run_id),
        _ => StoreError::MessageIdReused { run_id },
    })
}

pub(super) fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or_default()
}
