//! The contract of event stores: numbering, atomic appends, delivery after storage, recovery and deletion.
//!
//! The stores in memory, SQLite and PostgreSQL must behave the same; `tests/it/contract` checks that.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_model::events::{AgentEvent, EventBody, EventClass, EventMeta};
use jiff::Timestamp;

use crate::Draft;

mod approvals;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod cleaning;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod columns;
mod error;
mod fork;
mod hub;
mod interrupted;
mod log;
mod memory;
#[cfg(all(test, feature = "postgres", feature = "sqlite"))]
mod plans;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod request;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod statement;

pub use approvals::{AlwaysApproved, ApprovalAnswer, ApprovalInfo, Resolution, approval_decision};
pub use error::StoreError;
use error::repeated;
pub use hub::Subscription;
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use session::{Retention, RunInfo, SessionCursor, SessionInfo, Swept};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};

/// Numbers events and stores them, all of an append or nothing of it.
///
/// An event reaches subscribers only after it is stored, and before the append that stores it returns.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Stores the event that begins a session of `owner`, unless the session exists already.
    async fn open_session(
        &self,
        first: Draft,
        owner: Option<&str>,
    ) -> Result<Option<StoredEvent>, StoreError>;

    /// Stores the first event of a run. A session has one open run at a time; the user of its first run owns it. A
    /// message that has a client's id is stored once.
    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError>;

    /// Stores events of an open run, in this order. A terminal event closes the run. An answer to an approval that has
    /// one already is not stored: the stored answer, which may come before other events, is returned in its place.
    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError>;

    /// Ends a run that nothing will continue, as recovery would. Returns at once; if the end cannot be stored yet, the
    /// next `open_run` of the session or `recover` stores it.
    fn abandon(&self, session_id: &str, run_id: &str);

    /// Ends each open run whose process is gone, with the text that had arrived. Returns the ids of these runs.
    async fn recover(&self) -> Result<Vec<String>, StoreError>;

    /// Up to `limit` events of a session after this index, or from the first; fewer if they are large. Empty only if
    /// there are no more.
    async fn read_page(
        &self,
        session_id: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// The events of a session after this index, or all.
    async fn read_after(&self, session_id: &str, index: Option<u64>) -> Result<Vec<StoredEvent>, StoreError> {
        let mut events: Vec<StoredEvent> = Vec::new();
        let mut limit = PAGE;
        loop {
            let after = events.last().map(StoredEvent::index).or(index);
            let page = self.read_page(session_id, after, limit).await?;
            if page.is_empty() {
                return Ok(events);
            }
            limit = next_limit(page.len());
            events.extend(page);
        }
    }

    /// The events of a session after this index, or all, and then those that are stored later.
    async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription, StoreError>;

    /// Checks that events can be stored: there is space, and nothing forbids it.
    async fn check_writable(&self) -> Result<(), StoreError> {
        self.session("").await.map(drop)
    }

    /// Whether a session of another user has this id, or had it before it was deleted.
    async fn is_taken(&self, session_id: &str, user: &str) -> Result<bool, StoreError> {
        let known = self.session(session_id).await?;
        Ok(known.is_some_and(|session| session.owner.as_deref() != Some(user)))
    }

    /// A session, unless it does not exist.
    async fn session(&self, session_id: &str) -> Result<Option<SessionInfo>, StoreError>;

    /// A run, open or over, unless it does not exist.
    async fn run(&self, run_id: &str) -> Result<Option<RunInfo>, StoreError>;

    /// Up to `limit` sessions, or those of `owner`, the one with the latest event first: those that come after `after`, or
    /// the first.
    async fn sessions_page(
        &self,
        owner: Option<&str>,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError>;

    /// All sessions, or those of `owner`, the one with the latest event first.
    async fn sessions(&self, owner: Option<&str>) -> Result<Vec<SessionInfo>, StoreError> {
        self.sessions_page(owner, None, usize::MAX).await
    }

    /// Answers an approval, also one of a run that another process owns: one transaction checks that it is pending and
    /// stores the answer. An answer that is the stored one, by the same user, is returned without storing it again.
    async fn resolve_approval(&self, answer: ApprovalAnswer) -> Result<StoredEvent, StoreError>;

    /// An approval, pending or not, unless it does not exist.
    async fn approval(&self, approval_id: &str) -> Result<Option<ApprovalInfo>, StoreError>;

    /// The pending approvals of a session or of all, and of `owner` or of all, the oldest first.
    async fn approvals(
        &self,
        session_id: Option<&str>,
        owner: Option<&str>,
    ) -> Result<Vec<ApprovalInfo>, StoreError>;

    /// Resolves the approvals whose deadline is not after `now`, as expired. Returns their events.
    async fn expire_approvals(&self, now: Timestamp) -> Result<Vec<StoredEvent>, StoreError> {
        let mut expired = Vec::new();
        for ApprovalInfo { request, .. } in self.approvals(None, None).await? {
            if request.expires_at.is_none_or(|deadline| deadline > now) {
                continue;
            }
            let answer = ApprovalAnswer::new(request.approval_id, Resolution::Expire);
            match self.resolve_approval(answer).await {
                Ok(event) => expired.push(event),
                // A person was faster, or the run or the session ended.
                Err(
                    StoreError::AlreadyResolved { .. }
                    | StoreError::ApprovalNotFound { .. }
                    | StoreError::RunNotOpen { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// The tools that a person approved for the rest of the session, or for all sessions of its owner with its agent; by
    /// name. The latter is kept when sessions are deleted.
    async fn remembered_approvals(&self, session_id: &str) -> Result<Vec<String>, StoreError>;

    /// Forgets that a person approved a tool for the rest of the session, and for all sessions of its owner with its agent.
    /// Returns whether it was approved.
    async fn forget_approval(&self, session_id: &str, tool: &str) -> Result<bool, StoreError>;

    /// The tools that are always approved for an agent, by all owners or by this one; by owner and tool.
    async fn always_approved(
        &self,
        agent: &str,
        owner: Option<&str>,
    ) -> Result<Vec<AlwaysApproved>, StoreError>;

    /// Forgets that a tool is always approved, also in the sessions in which it was. Returns whether it was approved.
    async fn revoke_always(&self, approved: AlwaysApproved) -> Result<bool, StoreError>;

    /// Copies a session of `owner` as a new one: all but pieces of text, up to the end of a finished run, which
    /// `after_index` names, or of the last one. The copies have new ids and numbers, and the times of the originals.
    async fn fork_session(
        &self,
        from: &str,
        after_index: Option<u64>,
        session_id: &str,
        owner: Option<&str>,
    ) -> Result<SessionInfo, StoreError>;

    /// Deletes a session with all its events. Its id is never used again: that and its owner are kept. With `force`, also while a run is open.
    async fn delete_session(&self, session_id: &str, force: bool) -> Result<(), StoreError>;

    /// Deletes what is older than `retention`.
    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError>;
}

/// Events of a page.
const PAGE: usize = 256;

/// The events to ask for after a page with this many: a database sends them all, also those that do not fit into the page.
fn next_limit(found: usize) -> usize {
    found.saturating_mul(2).clamp(1, PAGE)
}

/// Bytes of a page's JSON, unless its first event is larger. Each reader that is behind holds a page.
const PAGE_BYTES: usize = 16 << 10;

/// An event that is stored. Only a store creates one, so it may be delivered, and nothing else can be:
///
/// ```compile_fail
/// use holodeck_events::StoredEvent;
/// use holodeck_model::events::AgentEvent;
///
/// fn deliver(event: AgentEvent) -> StoredEvent {
///     StoredEvent::from(event)
/// }
/// ```
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
    fn number(draft: &Draft, index: u64, sequence: Option<u64>) -> Result<Self, StoreError> {
        let mut event = draft.event.clone();
        event.meta.event_index = Some(index);
        event.meta.sequence_number = sequence;
        let json = serde_json::to_string(&event).map_err(StoreError::failed)?;
        Ok(Self(Arc::new(Numbered {
            event,
            class: draft.class,
            index,
            json,
        })))
    }

    /// The event that was stored as `json`.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn read(json: String, index: u64, class: EventClass) -> Result<Self, StoreError> {
        let event = serde_json::from_str(&json).map_err(StoreError::failed)?;
        Ok(Self(Arc::new(Numbered {
            event,
            class,
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

/// The counts of a session's events that a list of sessions shows.
#[derive(Debug, Default)]
struct Counts {
    runs: u64,
    messages: u64,
}

impl Counts {
    fn observe(&mut self, event: &AgentEvent) {
        match &event.body {
            EventBody::UserMessageConfirmed(_) => {
                self.runs += 1;
                self.messages += 1;
            }
            EventBody::Message(_) if event.meta.parent_tool_use_id.is_none() => self.messages += 1,
            _ => {}
        }
    }
}

/// The text of the person's message, if this event is one.
fn user_message(event: &AgentEvent) -> Option<String> {
    match &event.body {
        EventBody::UserMessageConfirmed(message) => Some(message.content.clone()),
        _ => None,
    }
}

/// The name of the agent, if this event names it.
fn agent_of(event: &AgentEvent) -> Option<&str> {
    match &event.body {
        EventBody::SessionStart(start) => start.agent_name.as_deref(),
        _ => None,
    }
}

/// Takes events until the page is full.
fn fill_page<E>(
    events: impl Iterator<Item = Result<StoredEvent, E>>,
    limit: usize,
) -> Result<Vec<StoredEvent>, E> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for event in events {
        let event = event?;
        bytes += event.json().len();
        if !page.is_empty() && bytes > PAGE_BYTES {
            break;
        }
        page.push(event);
        if page.len() >= limit.max(1) {
            break;
        }
    }
    Ok(page)
}

/// The time before which what is kept for `age` is too old.
fn before(now: Timestamp, age: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(age)
        .ok()
        .and_then(|age| now.checked_sub(age).ok())
        .unwrap_or(Timestamp::MIN)
}

fn session_of(meta: &EventMeta) -> &str {
    meta.session_id.as_deref().unwrap_or_default()
}

fn run_of(meta: &EventMeta) -> &str {
    meta.run_id.as_deref().unwrap_or_default()
}

/// The run and session of an append: those of all its events.
fn single_run(drafts: &[Draft]) -> Result<Option<(&str, &str)>, StoreError> {
    let Some(first) = drafts.first() else {
        return Ok(None);
    };
    let of = |draft: &Draft| {
        (
            draft.event.meta.session_id.clone(),
            draft.event.meta.run_id.clone(),
        )
    };
    let same = drafts.iter().all(|draft| of(draft) == of(first));
    // A terminal event is the last: nothing may follow it in its run.
    let ends = drafts.iter().position(|draft| draft.event.body.is_terminal());
    if !same || ends.is_some_and(|at| at + 1 < drafts.len()) {
        return Err(StoreError::failed(
            "an append has events of several runs, or after the end of one",
        ));
    }
    Ok(Some((session_of(&first.event.meta), run_of(&first.event.meta))))
}

/// Checks that a user may run in a session that had runs before, or begin its first; returns its owner from now on.
fn owner_of(
    session_id: &str,
    owner: Option<&str>,
    user: Option<&str>,
    has_runs: bool,
) -> Result<Option<String>, StoreError> {
    let allowed = if has_runs || owner.is_some() {
        owner == user
    } else {
        true
    };
    if allowed {
        return Ok(user.map(ToOwned::to_owned));
    }
    Err(StoreError::SessionNotFound {
        session_id: session_id.to_owned(),
    })
}

/// Refuses a cursor beyond the last event.
fn check_cursor(cursor: Option<u64>, head: Option<u64>) -> Result<(), StoreError> {
    match cursor {
        Some(cursor) if Some(cursor) > head => Err(StoreError::CursorAhead { cursor, head }),
        _ => Ok(()),
    }
}
