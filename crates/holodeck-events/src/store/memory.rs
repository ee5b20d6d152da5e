use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use holodeck_model::events::{EventClass, EventMeta};

use super::{EventStore, StoreError, StoredEvent};
use crate::Draft;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<String, Session>>);

#[derive(Debug, Default)]
struct Session {
    events: Vec<StoredEvent>,
    next_index: u64,
    next_sequence: u64,
    /// The run that is open.
    open: Option<String>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn open_session(&self, first: Draft) -> Result<Option<StoredEvent>, StoreError> {
        let mut sessions = self.sessions();
        let session = sessions.entry(session_of(&first.event.meta)).or_default();
        if session.next_index > 0 {
            return Ok(None);
        }
        Ok(session.append(vec![first])?.pop())
    }

    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError> {
        let session_id = session_of(&first.event.meta);
        let run_id = run_of(&first.event.meta);
        let mut sessions = self.sessions();
        let session = sessions.entry(session_id.clone()).or_default();
        if session.open.is_some() {
            return Err(StoreError::RunInProgress { session_id });
        }
        let stored = session.append(vec![first])?;
        session.open = Some(run_id.clone());
        stored.into_iter().next().ok_or(StoreError::RunNotOpen { run_id })
    }

    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError> {
        let Some(first) = drafts.first() else {
            return Ok(Vec::new());
        };
        let run_id = run_of(&first.event.meta);
        let mut sessions = self.sessions();
        let session = sessions.entry(session_of(&first.event.meta)).or_default();
        if session.open.as_deref() != Some(run_id.as_str()) {
            return Err(StoreError::RunNotOpen { run_id });
        }
        let over = drafts.iter().any(|draft| draft.event.body.is_terminal());
        let stored = session.append(drafts)?;
        if over {
            session.open = None;
        }
        Ok(stored)
    }

    async fn read_after(&self, session_id: &str, index: Option<u64>) -> Result<Vec<StoredEvent>, StoreError> {
        let sessions = self.sessions();
        let events = sessions.get(session_id).map(|session| session.events.as_slice());
        let events = events.unwrap_or_default().iter();
        let later = events.filter(|event| index.is_none_or(|index| event.index() > index));
        Ok(later.cloned().collect())
    }
}

impl Session {
    /// Numbers and stores: the numbers are used only if all events are stored.
    fn append(&mut self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError> {
        let (mut index, mut sequence) = (self.next_index, self.next_sequence);
        let mut stored = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let number = (draft.class == EventClass::Stored).then_some(sequence);
            stored.push(StoredEvent::number(draft, index, number)?);
            index += 1;
            sequence += u64::from(number.is_some());
        }
        (self.next_index, self.next_sequence) = (index, sequence);
        self.events.extend(stored.iter().cloned());
        Ok(stored)
    }
}

fn session_of(meta: &EventMeta) -> String {
    meta.session_id.clone().unwrap_or_default()
}

fn run_of(meta: &EventMeta) -> String {
    meta.run_id.clone().unwrap_or_default()
}
