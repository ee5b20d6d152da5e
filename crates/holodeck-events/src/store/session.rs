//! The sessions and runs of a store, as lists show them, and how long they are kept.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

/// A session as its store describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id.
    pub session_id: String,
    /// The user it belongs to, if one was named.
    pub owner: Option<String>,
    /// The index of its last event.
    #[serde(rename = "headIndex")]
    pub head: Option<u64>,
    /// The run that is open.
    pub open_run: Option<String>,
    /// The agent, if its beginning names it.
    pub agent: Option<String>,
    /// The person's first message.
    pub first_message: Option<String>,
    /// Its runs.
    pub runs: u64,
    /// The messages of the person and of the agent, without those of nested agents.
    pub messages: u64,
    /// When its first event was recorded.
    pub created_at: Timestamp,
    /// When its latest event was recorded, pieces of text excepted.
    pub last_at: Timestamp,
}

/// A run as its store describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// Its id.
    pub run_id: String,
    /// The session.
    pub session_id: String,
    /// The user whose session it is, if one was named.
    pub owner: Option<String>,
    /// The index of its first event, the person's message.
    pub first_index: u64,
    /// The index of its last event, once it is over.
    pub last_index: Option<u64>,
    /// The process of this machine that runs it, if it is open and the store knows.
    pub process: Option<u32>,
}

/// A place in the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the order of the list")]
pub struct SessionCursor {
    /// The session's [`SessionInfo::last_at`], as precise as a millisecond.
    pub last_at: Timestamp,
    /// The session.
    pub session_id: String,
}

impl SessionInfo {
    /// Its place in the list.
    pub fn cursor(&self) -> SessionCursor {
        SessionCursor {
            last_at: self.last_at,
            session_id: self.session_id.clone(),
        }
    }
}

/// How long events are kept, by the time of day at which they were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the two settings of the design")]
pub struct Retention {
    /// Pieces of text are kept this long after their run is over.
    pub resume_window: Duration,
    /// Sessions without an open run are kept this long after their last event; `None`: for ever.
    pub sessions: Option<Duration>,
}

/// The numbers of sessions and pieces of text that a sweep deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Pieces of text.
    pub pieces: usize,
    /// Sessions.
    pub sessions: usize,
}
