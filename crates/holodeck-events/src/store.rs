use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::events::{AgentEvent, EventClass};

use crate::Draft;

mod memory;

pub use memory::MemoryStore;

/// Numbers events and keeps them. What an append gives back is kept, all of it or nothing.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Keeps the event that begins a session, unless the session has events already.
    async fn open_session(&self, first: Draft) -> Result<Option<StoredEvent>, StoreError>;

    /// Keeps the first event of a run. A session has one open run at a time.
    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError>;

    /// Keeps events of an open run, in this order. A terminal event closes the run.
    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError>;

    /// The events of a session after this index, or all.
    async fn read_after(&self, session_id: &str, index: Option<u64>) -> Result<Vec<StoredEvent>, StoreError>;
}

/// Why events were not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session has a run that is not over.
    #[error("session `{session_id}` has a run that is not over")]
    RunInProgress {
        /// The session.
        session_id: String,
    },
    /// The run is over, or never began.
    #[error("run `{run_id}` is not open")]
    RunNotOpen {
        /// The run.
        run_id: String,
    },
    /// What keeps the events failed.
    #[error("events could not be stored: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

/// An event that is kept. Only a store makes one, so whoever holds one may show it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent(Arc<Kept>);

#[derive(Debug, PartialEq)]
struct Kept {
    event: AgentEvent,
    class: EventClass,
    index: u64,
    json: String,
}

impl StoredEvent {
    /// The event of `draft` with its numbers.
    fn number(draft: Draft, index: u64, sequence: Option<u64>) -> Result<Self, StoreError> {
        let mut event = draft.event;
        event.meta.event_index = Some(index);
        event.meta.sequence_number = sequence;
        let json = serde_json::to_string(&event).map_err(|error| StoreError::Failed {
            reason: error.to_string(),
        })?;
        Ok(Self(Arc::new(Kept {
            event,
            class: draft.class,
            index,
            json,
        })))
    }

    /// The event.
    pub fn event(&self) -> &AgentEvent {
        &self.0.event
    }

    /// How it is kept.
    pub fn class(&self) -> EventClass {
        self.0.class
    }

    /// Its place in the session.
    pub fn index(&self) -> u64 {
        self.0.index
    }

    /// The bytes every client gets, now and in any replay.
    pub fn json(&self) -> &str {
        &self.0.json
    }
}
