//! The metadata of events: identity, order, and the session, run and agent they belong to.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use super::PersistenceState;

/// The metadata of every event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventMeta {
    /// When it was recorded. Never used for ordering.
    #[serde(serialize_with = "milliseconds")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub timestamp: Timestamp,
    /// Its id, the same in every replay.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub event_id: Uuid,
    /// Whether it was stored before it was delivered.
    pub persistence_state: PersistenceState,
    /// Its place among all events of the session: strictly increasing, the cursor to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_index: Option<u64>,
    /// Its place among the stored content of the session, without gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<u64>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The agent it is about, if that is not the session's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The call that started the agent it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The model message of the run it belongs to, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
}

impl EventMeta {
    /// The keys of an event's JSON that belong here.
    pub(super) const FIELDS: [&str; 10] = [
        "timestamp",
        "eventId",
        "persistenceState",
        "eventIndex",
        "sequenceNumber",
        "sessionId",
        "runId",
        "agentId",
        "parentToolUseId",
        "turn",
    ];
}

pub(super) fn milliseconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.3}"))
}
