//! The event store in memory, for tests and for conversations that need not be kept.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use holodeck_model::events::{ApprovalScope, EventBody, EventClass};

use super::{
    AlwaysApproved, ApprovalAnswer, ApprovalInfo, EventStore, Retention, RunInfo, SessionCursor, SessionInfo,
    StoreError, StoredEvent, Subscription, Swept,
    approvals::{Answered, Approval, remembered},
    before, check_cursor, fill_page,
    fork::{check_owner, fork},
    hub::Hub,
    interrupted::end_interrupted,
    owner_of, repeated, run_of, session_of, single_run,
};
use crate::{Clock, Draft, Ids, RandomIds, SystemClock};

mod session;

use session::{Session, Unique};

/// A store in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    hub: Hub,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<String, Session>,
    /// The session of each run.
    runs: HashMap<String, String>,
    /// The owners of deleted sessions, by id.
    deleted: HashMap<String, Option<String>>,
    /// Tools that are always approved, by owner and agent.
    always: HashMap<(Option<String>, String), BTreeSet<String>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_sources(Arc::new(SystemClock::default()), Arc::new(RandomIds))
    }

    /// An empty store that reads the time of its sweeps, and the time and ids of the events that it writes itself, here.
    pub fn with_sources(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            hub: Hub::default(),
            clock,
            ids,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delete(&self, state: &mut State, session_id: &str) {
        let deleted = state.sessions.remove(session_id);
        state.runs.retain(|_, session| session != session_id);
        let owner = deleted.and_then(|session| session.owner);
        state.deleted.insert(session_id.to_owned(), owner);
        self.0.hub.close(session_id);
    }

    /// Stores events and delivers them; the lock keeps their order.
    fn store(
        &self,
        session_id: &str,
        session: &mut Session,
        drafts: &[Draft],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let (stored, new) = session.append(drafts)?;
        self.0.hub.publish(session_id, &new);
        Ok(stored)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl State {
    /// A session, created if it does not exist.
    fn session(&mut self, session_id: &str) -> Result<&mut Session, StoreError> {
        if self.deleted.contains_key(session_id) {
            return Err(deleted(session_id));
        }
        Ok(self.sessions.entry(session_id.to_owned()).or_default())
    }

    fn approval(&self, approval_id: &str) -> Option<Approval> {
        self.sessions.values().find_map(|session| {
            let mut approvals = session.approvals.iter();
            let known = approvals.find(|known| known.approval_id == approval_id)?;
            Some(session.approval(known))
        })
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
        let message = message.clone();
        let user = message.user_id.as_deref();
        let mut state = self.state();
        let is_known = state.runs.contains_key(&run_id);
        let session = state.session(&session_id)?;
        let has_runs = session.next_sequence > 0;
        let owner = owner_of(&session_id, session.owner.as_deref(), user, has_runs)?;
        for event in &session.events {
            if let EventBody::UserMessageConfirmed(sent) = &event.event().body
                && sent.client_message_id.is_some()
                && sent.client_message_id == message.client_message_id
            {
                let run_id = run_of(&event.event().meta).to_owned();
                return Err(repeated(sent, &message, run_id));
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
        state.runs.insert(run_id.clone(), session_id);
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
        let drafts = end_interrupted(&own, &*self.0.clock, &*self.0.ids);
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

    async fn is_taken(&self, session_id: &str, user: &str) -> Result<bool, StoreError> {
        let state = self.state();
        let known = state.sessions.get(session_id).map(|session| &session.owner);
        let owner = known.or_else(|| state.deleted.get(session_id));
        Ok(owner.is_some_and(|owner| owner.as_deref() != Some(user)))
    }

    async fn session(&self, session_id: &str) -> Result<Option<SessionInfo>, StoreError> {
        let state = self.state();
        let session = state.sessions.get(session_id);
        Ok(session.map(|session| session.info(session_id)))
    }

    async fn run(&self, run_id: &str) -> Result<Option<RunInfo>, StoreError> {
        let state = self.state();
        let find = || {
            let session_id = state.runs.get(run_id)?;
            let session = state.sessions.get(session_id)?;
            let of_run = |event: &&StoredEvent| run_of(&event.event().meta) == run_id;
            let is_open = session.open.as_deref() == Some(run_id);
            let last = session.events.iter().rfind(of_run).filter(|_| !is_open);
            Some(RunInfo {
                run_id: run_id.to_owned(),
                session_id: session_id.clone(),
                owner: session.owner.clone(),
                first_index: session.events.iter().find(of_run)?.index(),
                last_index: last.map(StoredEvent::index),
                process: is_open.then(std::process::id),
            })
        };
        Ok(find())
    }

    async fn sessions_page(
        &self,
        owner: Option<&str>,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let state = self.state();
        let all = state.sessions.iter();
        let of_owner = all.filter(|(_, session)| owner.is_none() || session.owner.as_deref() == owner);
        let mut sessions: Vec<_> = of_owner.map(|(id, session)| session.info(id)).collect();
        sessions.sort_by_key(|session| Reverse(session.last_at));
        if let Some(after) = after {
            let place = |at, id: &str| (Reverse(at), id.to_owned());
            let from = place(after.last_at, &after.session_id);
            sessions.retain(|session| place(session.last_at, &session.session_id) > from);
        }
        sessions.truncate(limit);
        Ok(sessions)
    }

    async fn resolve_approval(&self, answer: ApprovalAnswer) -> Result<StoredEvent, StoreError> {
        let not_found = || StoreError::ApprovalNotFound {
            approval_id: answer.approval_id.clone(),
        };
        let mut state = self.state();
        let approval = state.approval(&answer.approval_id).ok_or_else(not_found)?;
        let draft = match approval.resolve(&answer, &*self.0.clock, &*self.0.ids)? {
            Answered::Before(stored) => return Ok(stored),
            Answered::Now(draft) => draft,
        };
        let session_id = approval.session_id();
        let session = state.sessions.get_mut(session_id).ok_or_else(not_found)?;
        if session.open.as_deref() != Some(approval.run_id()) {
            return Err(StoreError::RunNotOpen {
                run_id: approval.run_id().to_owned(),
            });
        }
        let stored = self.store(session_id, session, &[*draft])?;
        let stored = stored.into_iter().next().ok_or_else(not_found)?;
        let scope = remembered(&stored);
        if scope.is_some() {
            session.approved.insert(approval.tool());
        }
        if let (Some(ApprovalScope::Always), Some(agent)) = (scope, &approval.agent) {
            let key = (approval.owner.clone(), agent.clone());
            let tools = state.always.entry(key).or_default();
            tools.insert(approval.tool());
        }
        Ok(stored)
    }

    async fn approval(&self, approval_id: &str) -> Result<Option<ApprovalInfo>, StoreError> {
        let approval = self.state().approval(approval_id);
        Ok(approval.and_then(|approval| approval.info()))
    }

    async fn approvals(
        &self,
        session_id: Option<&str>,
        owner: Option<&str>,
    ) -> Result<Vec<ApprovalInfo>, StoreError> {
        let state = self.state();
        let mut pending = Vec::new();
        for (id, session) in &state.sessions {
            let is_wanted = session_id.is_none_or(|wanted| wanted == id)
                && (owner.is_none() || session.owner.as_deref() == owner);
            if is_wanted {
                let waiting = session.approvals.iter().filter(|known| known.resolved.is_none());
                pending.extend(waiting.filter_map(|known| session.approval(known).info()));
            }
        }
        pending.sort_by_key(|approval| approval.requested_at);
        Ok(pending)
    }

    async fn remembered_approvals(&self, session_id: &str) -> Result<Vec<String>, StoreError> {
        let state = self.state();
        let Some(session) = state.sessions.get(session_id) else {
            return Ok(Vec::new());
        };
        let mut tools = session.approved.clone();
        if let Some(agent) = &session.agent {
            let always = state.always.get(&(session.owner.clone(), agent.clone()));
            tools.extend(always.into_iter().flatten().cloned());
        }
        Ok(tools.into_iter().collect())
    }

    async fn always_approved(
        &self,
        agent: &str,
        owner: Option<&str>,
    ) -> Result<Vec<AlwaysApproved>, StoreError> {
        let state = self.state();
        let of_agent = state
            .always
            .iter()
            .filter(|((by, of), _)| of == agent && (owner.is_none() || by.as_deref() == owner));
        let mut found: Vec<_> = of_agent
            .flat_map(|((owner, agent), tools)| {
                tools.iter().map(|tool| AlwaysApproved {
                    owner: owner.clone(),
                    agent: agent.clone(),
                    tool: tool.clone(),
                })
            })
            .collect();
        found.sort();
        Ok(found)
    }

    async fn revoke_always(&self, approved: AlwaysApproved) -> Result<bool, StoreError> {
        let mut state = self.state();
        let AlwaysApproved { owner, agent, tool } = approved;
        let key = (owner.clone(), agent.clone());
        let was_approved = state
            .always
            .get_mut(&key)
            .is_some_and(|tools| tools.remove(&tool));
        if was_approved {
            let sessions = state.sessions.values_mut();
            for session in
                sessions.filter(|session| session.owner == owner && session.agent.as_ref() == Some(&agent))
            {
                session.approved.remove(&tool);
            }
        }
        Ok(was_approved)
    }

    async fn forget_approval(&self, session_id: &str, tool: &str) -> Result<bool, StoreError> {
        let mut state = self.state();
        let State { sessions, always, .. } = &mut *state;
        let Some(session) = sessions.get_mut(session_id) else {
            return Ok(false);
        };
        let mut was_approved = session.approved.remove(tool);
        if let Some(agent) = &session.agent
            && let Some(tools) = always.get_mut(&(session.owner.clone(), agent.clone()))
        {
            was_approved |= tools.remove(tool);
        }
        Ok(was_approved)
    }

    async fn fork_session(
        &self,
        from: &str,
        after_index: Option<u64>,
        session_id: &str,
        owner: Option<&str>,
    ) -> Result<SessionInfo, StoreError> {
        let mut state = self.state();
        if state.deleted.contains_key(session_id) {
            return Err(deleted(session_id));
        }
        if state.sessions.contains_key(session_id) {
            return Err(StoreError::SessionExists {
                session_id: session_id.to_owned(),
            });
        }
        let Some(origin) = state.sessions.get(from) else {
            return Err(StoreError::SessionNotFound {
                session_id: from.to_owned(),
            });
        };
        check_owner(from, origin.owner.as_deref(), owner)?;
        let sources = (&*self.0.clock, &*self.0.ids);
        let fork = fork(&origin.events, from, after_index, session_id, sources)?;
        let mut session = Session {
            owner: owner.map(ToOwned::to_owned),
            ..Session::default()
        };
        session.append(&[fork.start])?;
        for (_, drafts) in &fork.runs {
            session.append(drafts)?;
        }
        let runs = fork
            .runs
            .into_iter()
            .map(|(run_id, _)| (run_id, session_id.to_owned()));
        state.runs.extend(runs);
        let info = session.info(session_id);
        state.sessions.insert(session_id.to_owned(), session);
        Ok(info)
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
        self.delete(&mut state, session_id);
        Ok(())
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError> {
        let now = self.0.clock.now();
        let mut swept = Swept::default();
        let mut state = self.state();
        let mut expired = Vec::new();
        for (id, session) in &mut state.sessions {
            let is_expired = retention
                .sessions
                .is_some_and(|age| session.last_at < before(now, age));
            if is_expired && session.open.is_none() {
                expired.push(id.clone());
                continue;
            }
            let limit = before(now, retention.resume_window);
            let ended: HashSet<String> = session
                .events
                .iter()
                .map(StoredEvent::event)
                .filter(|event| event.body.is_terminal() && event.meta.timestamp < limit)
                .map(|event| run_of(&event.meta).to_owned())
                .collect();
            let all = session.events.len();
            let Session { events, unique, .. } = session;
            events.retain(|event| {
                let keep =
                    event.class() != EventClass::Journaled || !ended.contains(run_of(&event.event().meta));
                if !keep {
                    unique.remove(&Unique::Event(event.event().meta.event_id));
                }
                keep
            });
            swept.pieces += all - session.events.len();
        }
        for id in expired {
            self.delete(&mut state, &id);
            swept.sessions += 1;
        }
        Ok(swept)
    }
}

fn deleted(session_id: &str) -> StoreError {
    StoreError::SessionDeleted {
        session_id: session_id.to_owned(),
    }
}
