use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::events::{AgentEvent, EventClass};

use crate::Draft;

mod memory;

pub use memory::MemoryStore;

/// Numbers events and stores them, all of an append or nothing of it.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Stores the event that begins a session, unless the session has events already.
    async fn open_session(&self, first: Draft) -> Result<Option<StoredEvent>, StoreError>;

    /// Stores the first event of a run. A session has one open run at a time.
    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError>;

    /// Stores events of an open run, in this order. A terminal event closes the run.
    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError>;

    /// The events of a session after this index, or all.
    async fn read_after(&self, session_id: &str, index: Option<u64>) -> Result<Vec<StoredEvent>, StoreError>;
}

/// Why events were not stored.
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
    /// The storage failed.
    #[error("events could not be stored: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

/// An event that is stored. Only a store creates one, so it may be delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent(Arc<Numbered>);

#[derive(Debug, PartialEq)]
struct Numbered {
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
        Ok(Self(Arc::new(Numbered {
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

    /// How it is stored.
    pub fn class(&self) -> EventClass {
        self.0.class
    }

    /// Its index in the session.
    pub fn index(&self) -> u64 {
        self.0.index
    }

    /// The JSON that every client receives, now and in any replay.
    pub fn json(&self) -> &str {
        &self.0.json
    }
}
