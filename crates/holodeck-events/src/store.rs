//! The contract of event stores: numbering, atomic appends, delivery after storage, recovery and deletion.
//!
//! The stores in memory, SQLite and PostgreSQL must behave the same; `tests/it/contract` checks that.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_model::events::{AgentEvent, Decision, EventBody, EventClass, EventMeta, UserMessage};
use jiff::Timestamp;
use serde::Serialize;

use crate::Draft;

mod approvals;
mod fork;
mod hub;
mod interrupted;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod request;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use approvals::{ApprovalAnswer, ApprovalInfo, Resolution, approval_decision};
pub use hub::Subscription;
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
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
        loop {
            let after = events.last().map(StoredEvent::index).or(index);
            let page = self.read_page(session_id, after, PAGE).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }

    /// The events of a session after this index, or all, and then those that are stored later.
    async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription, StoreError>;

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

    /// Copies a session of `owner` as a new one: all but pieces of text, up to the end of a finished run, which
    /// `after_index` names, or of the last one. The copies have new ids and numbers, and the times of the originals.
    async fn fork_session(
        &self,
        from: &str,
        after_index: Option<u64>,
        session_id: &str,
        owner: Option<&str>,
    ) -> Result<SessionInfo, StoreError>;

    /// Deletes a session with all its events. Its id is never used again. With `force`, also while a run is open.
    async fn delete_session(&self, session_id: &str, force: bool) -> Result<(), StoreError>;

    /// Deletes what is older than `retention`.
    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError>;
}

/// Events of a page.
const PAGE: usize = 256;
/// Bytes of a page's JSON, unless its first event is larger.
const PAGE_BYTES: usize = 1 << 20;

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
    /// When its latest event was recorded.
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
    /// When the latest event of the session was recorded, as precise as a millisecond.
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

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session has a run that is not over.
    #[error("session `{session_id}` has a run that is not over{}", in_process(*.process))]
    RunInProgress {
        /// The session.
        session_id: String,
        /// The process that runs it, if it is another one.
        process: Option<u32>,
    },
    /// The run is over, or never began.
    #[error("run `{run_id}` is not open")]
    RunNotOpen {
        /// The run.
        run_id: String,
    },
    /// The run is another writer's: it never was this one's, or this one was taken for dead.
    #[error("run `{run_id}` is no longer owned by this process")]
    StaleOwner {
        /// The run.
        run_id: String,
    },
    /// A run with this id exists.
    #[error("run `{run_id}` exists already")]
    RunExists {
        /// The run.
        run_id: String,
    },
    /// The message was sent before, and this run answers it.
    #[error("the message was already sent; run `{run_id}` answers it")]
    AlreadySent {
        /// The run.
        run_id: String,
    },
    /// The client's id belongs to another message of the session.
    #[error("the client message id is used by another message, of run `{run_id}`")]
    MessageIdReused {
        /// The run of the other message.
        run_id: String,
    },
    /// The session does not exist, or belongs to another user.
    #[error("session `{session_id}` does not exist")]
    SessionNotFound {
        /// The session.
        session_id: String,
    },
    /// The session was deleted.
    #[error("session `{session_id}` was deleted; use another id")]
    SessionDeleted {
        /// The session.
        session_id: String,
    },
    /// A session with this id exists.
    #[error("session `{session_id}` exists already")]
    SessionExists {
        /// The session.
        session_id: String,
    },
    /// A session is copied only up to the end of a run.
    #[error("session `{session_id}` can be forked only after a finished run")]
    NotAfterARun {
        /// The session.
        session_id: String,
    },
    /// The approval does not exist, or is another user's or session's.
    #[error("approval `{approval_id}` does not exist")]
    ApprovalNotFound {
        /// The approval.
        approval_id: String,
    },
    /// The approval has another answer.
    #[error("approval `{approval_id}` was already resolved: {decision}{}", by_user(.by.as_deref()))]
    AlreadyResolved {
        /// The approval.
        approval_id: String,
        /// The answer.
        decision: Decision,
        /// Who gave it, if it was a person with a name.
        by: Option<String>,
    },
    /// The time for an answer is over.
    #[error("approval `{approval_id}` has expired")]
    Expired {
        /// The approval.
        approval_id: String,
    },
    /// A reader asks for what follows an event that the session does not have.
    #[error("the cursor {cursor} is beyond the last event of the session")]
    CursorAhead {
        /// The cursor.
        cursor: u64,
        /// The index of the last event.
        head: Option<u64>,
    },
    /// There is no more space.
    #[error("events could not be stored: the disk or the store is full")]
    Full,
    /// The store has tables of a newer version.
    #[error("`{path}` was written by a newer version of HoloDeck; use that version")]
    Newer {
        /// The file, or the database.
        path: String,
    },
    /// The storage failed.
    #[error("events could not be stored: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

impl StoreError {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed {
            reason: error.to_string(),
        }
    }
}

fn in_process(process: Option<u32>) -> String {
    process.map_or_else(String::new, |id| format!("; process {id} runs it"))
}

fn by_user(user: Option<&str>) -> String {
    user.map_or_else(String::new, |user| format!(" by {user}"))
}

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

/// Why a message is refused whose client's id is that of `sent`, which `run_id` answers.
fn repeated(sent: &UserMessage, again: &UserMessage, run_id: String) -> StoreError {
    // Each attempt to send a message has its own id.
    let again = UserMessage {
        message_id: sent.message_id.clone(),
        ..again.clone()
    };
    if *sent == again {
        StoreError::AlreadySent { run_id }
    } else {
        StoreError::MessageIdReused { run_id }
    }
}

/// Refuses a cursor beyond the last event.
fn check_cursor(cursor: Option<u64>, head: Option<u64>) -> Result<(), StoreError> {
    match cursor {
        Some(cursor) if Some(cursor) > head => Err(StoreError::CursorAhead { cursor, head }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::events::UserMessage;

    use super::{StoreError, repeated};

    #[test]
    fn a_message_is_the_same_only_with_all_of_its_fields() {
        let sent = UserMessage {
            message_id: "m-1".to_owned(),
            content: "go".to_owned(),
            user_id: Some("alice".to_owned()),
            client_message_id: Some("c".to_owned()),
            attachments: Vec::new(),
        };
        let is_same = |again: UserMessage| {
            matches!(
                repeated(&sent, &again, String::new()),
                StoreError::AlreadySent { .. }
            )
        };
        assert!(is_same(UserMessage {
            message_id: "m-2".to_owned(),
            ..sent.clone()
        }));
        assert!(!is_same(UserMessage {
            content: "stop".to_owned(),
            ..sent.clone()
        }));
        assert!(!is_same(UserMessage {
            user_id: None,
            ..sent.clone()
        }));
    }
}
