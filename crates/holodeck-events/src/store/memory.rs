use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use holodeck_model::events::{EventBody, EventClass};
use jiff::Timestamp;

use super::{
    EventStore, Retention, SessionInfo, StoreError, StoredEvent, Subscription, Swept, before, check_cursor,
    fill_page, hub::Hub, interrupted::end_interrupted, owner_of, run_of, session_of, single_run,
};
use crate::{Clock, Draft, Ids, RandomIds, SystemClock};

/// A store in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    hub: Hub,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<String, Session>,
    /// The ids of all runs.
    runs: HashSet<String>,
    deleted: HashSet<String>,
}

#[derive(Debug, Default)]
struct Session {
    owner: Option<String>,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores events and delivers them; the lock keeps their order.
    fn store(
        &self,
        session_id: &str,
        session: &mut Session,
        drafts: &[Draft],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let stored = session.append(drafts)?;
        self.0.hub.publish(session_id, &stored);
        Ok(stored)
    }
}

impl State {
    /// A session, created if it does not exist.
    fn session(&mut self, session_id: &str) -> Result<&mut Session, StoreError> {
        if self.deleted.contains(session_id) {
            return Err(deleted(session_id));
        }
        Ok(self.sessions.entry(session_id.to_owned()).or_default())
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn open_session(
        &self,
        first: Draft,
        owner: Option<&str>,
    ) -> Result<Option<StoredEvent>, StoreError> {
        let session_id = session_of(&first.event.meta).to_owned();
        let mut state = self.state();
        let session = state.session(&session_id)?;
        let exists = session.next_index > 0;
        let owner = owner_of(&session_id, session.owner.as_deref(), owner, exists)?;
        if exists {
            return Ok(None);
        }
        session.owner = owner;
        Ok(self.store(&session_id, session, &[first])?.pop())
    }

    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError> {
        let session_id = session_of(&first.event.meta).to_owned();
        let run_id = run_of(&first.event.meta).to_owned();
        let EventBody::UserMessageConfirmed(message) = &first.event.body else {
            return Err(StoreError::RunNotOpen { run_id });
        };
        let (user, client_id) = (message.user_id.clone(), message.client_message_id.clone());
        let content = message.content.clone();
        let mut state = self.state();
        let is_known = state.runs.contains(&run_id);
        let session = state.session(&session_id)?;
        let has_runs = session.next_sequence > 0;
        let owner = owner_of(&session_id, session.owner.as_deref(), user.as_deref(), has_runs)?;
        for event in &session.events {
            if let EventBody::UserMessageConfirmed(sent) = &event.event().body
                && client_id.is_some()
                && sent.client_message_id == client_id
            {
                let run_id = run_of(&event.event().meta).to_owned();
                return Err(if sent.content == content {
                    StoreError::AlreadySent { run_id }
                } else {
                    StoreError::MessageIdReused { run_id }
                });
            }
        }
        if session.open.is_some() {
            return Err(StoreError::RunInProgress {
                session_id,
                process: None,
            });
        }
        if is_known {
            if session.next_index == 0 {
                state.sessions.remove(&session_id);
            }
            return Err(StoreError::RunExists { run_id });
        }
        let stored = self.store(&session_id, session, &[first])?;
        session.open = Some(run_id.clone());
        session.owner = owner;
        state.runs.insert(run_id.clone());
        stored.into_iter().next().ok_or(StoreError::RunNotOpen { run_id })
    }

    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError> {
        let Some((session_id, run_id)) = single_run(&drafts)? else {
            return Ok(Vec::new());
        };
        let mut state = self.state();
        let session = state.sessions.get_mut(session_id);
        let session = session.filter(|session| session.open.as_deref() == Some(run_id));
        let Some(session) = session else {
            return Err(StoreError::RunNotOpen {
                run_id: run_id.to_owned(),
            });
        };
        self.store(session_id, session, &drafts)
    }

    fn abandon(&self, session_id: &str, run_id: &str) {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(session_id) else {
            return;
        };
        if session.open.as_deref() != Some(run_id) {
            return;
        }
        let events = session.events.iter();
        let own = events.filter(|event| run_of(&event.event().meta) == run_id);
        let own: Vec<_> = own.cloned().collect();
        let drafts = end_interrupted(
            &own,
            &SystemClock::default() as &dyn Clock,
            &RandomIds as &dyn Ids,
        );
        // What was stored before can be stored again.
        let _ = self.store(session_id, session, &drafts);
    }

    async fn recover(&self) -> Result<Vec<String>, StoreError> {
        // No run outlives the process that this store is a part of.
        Ok(Vec::new())
    }

    async fn read_page(
        &self,
        session_id: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let state = self.state();
        let Some(session) = state.sessions.get(session_id) else {
            return Ok(Vec::new());
        };
        let events = session.events.iter();
        let later = events.filter(|event| after.is_none_or(|after| event.index() > after));
        fill_page(later.cloned().map(Ok), limit)
    }

    async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription, StoreError> {
        let state = self.state();
        let Some(session) = state.sessions.get(session_id) else {
            return Err(StoreError::SessionNotFound {
                session_id: session_id.to_owned(),
            });
        };
        check_cursor(after, session.head())?;
        let store = Arc::new(self.clone());
        Ok(self.0.hub.subscribe(store, session_id, after))
    }

    async fn session(&self, session_id: &str) -> Result<Option<SessionInfo>, StoreError> {
        let state = self.state();
        let session = state.sessions.get(session_id);
        Ok(session.map(|session| session.info(session_id)))
    }

    async fn sessions(&self, owner: Option<&str>) -> Result<Vec<SessionInfo>, StoreError> {
        let state = self.state();
        let all = state.sessions.iter();
        let of_owner = all.filter(|(_, session)| owner.is_none() || session.owner.as_deref() == owner);
        Ok(of_owner.map(|(id, session)| session.info(id)).collect())
    }

    async fn delete_session(&self, session_id: &str, force: bool) -> Result<(), StoreError> {
        let mut state = self.state();
        let Some(session) = state.sessions.get(session_id) else {
            return Err(StoreError::SessionNotFound {
                session_id: session_id.to_owned(),
            });
        };
        if session.open.is_some() && !force {
            return Err(StoreError::RunInProgress {
                session_id: session_id.to_owned(),
                process: None,
            });
        }
        state.sessions.remove(session_id);
        state.deleted.insert(session_id.to_owned());
        self.0.hub.close(session_id);
        Ok(())
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError> {
        let now = Timestamp::now();
        let mut swept = Swept::default();
        let mut state = self.state();
        let mut expired = Vec::new();
        for (id, session) in &mut state.sessions {
            let is_old = |event: &StoredEvent, age| event.event().meta.timestamp < before(now, age);
            let last = session.events.last();
            let is_expired = retention
                .sessions
                .is_some_and(|age| last.is_some_and(|last| is_old(last, age)));
            if is_expired && session.open.is_none() {
                expired.push(id.clone());
                continue;
            }
            let ended: HashSet<String> = session
                .events
                .iter()
                .filter(|event| event.event().body.is_terminal() && is_old(event, retention.resume_window))
                .map(|event| run_of(&event.event().meta).to_owned())
                .collect();
            let all = session.events.len();
            session.events.retain(|event| {
                event.class() != EventClass::Journaled || !ended.contains(run_of(&event.event().meta))
            });
            swept.pieces += all - session.events.len();
        }
        for id in expired {
            state.sessions.remove(&id);
            self.0.hub.close(&id);
            state.deleted.insert(id);
            swept.sessions += 1;
        }
        Ok(swept)
    }
}

impl Session {
    /// Numbers and stores: the numbers are used only if all events are stored.
    fn append(&mut self, drafts: &[Draft]) -> Result<Vec<StoredEvent>, StoreError> {
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
        if drafts.iter().any(|draft| draft.event.body.is_terminal()) {
            self.open = None;
        }
        Ok(stored)
    }

    fn head(&self) -> Option<u64> {
        self.next_index.checked_sub(1)
    }

    fn info(&self, session_id: &str) -> SessionInfo {
        SessionInfo {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
            head: self.head(),
            open_run: self.open.clone(),
        }
    }
}

fn deleted(session_id: &str) -> StoreError {
    StoreError::SessionDeleted {
        session_id: session_id.to_owned(),
    }
}
