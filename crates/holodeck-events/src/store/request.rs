//! The requests to the writer of a store in a database, and the effects that follow their commit.

#[cfg(feature = "sqlite")]
use holodeck_model::events::EventClass;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::{
    AlwaysApproved, ApprovalAnswer, Retention, SessionInfo, StoreError, StoredEvent, Swept, before,
    session_of,
};
use crate::Draft;

/// A request to the writer of a store.
pub(in crate::store) enum Request {
    OpenSession {
        first: Draft,
        owner: Option<String>,
    },
    OpenRun(Draft),
    Append(Vec<Draft>),
    Abandon {
        session_id: String,
        run_id: String,
    },
    Recover,
    Resolve(ApprovalAnswer),
    Forget {
        session_id: String,
        tool: String,
    },
    Revoke(AlwaysApproved),
    Fork(Copy),
    Delete {
        session_id: String,
        force: bool,
    },
    Sweep(Retention),
    /// Writes something that changes nothing.
    Check,
    /// Nothing; all that was asked before is done then.
    Wake,
    Close,
}

/// The source and the target of a copy.
#[derive(Debug)]
pub(in crate::store) struct Copy {
    pub(in crate::store) from: String,
    pub(in crate::store) after_index: Option<u64>,
    pub(in crate::store) session_id: String,
    pub(in crate::store) owner: Option<String>,
}

/// A request and where its result goes.
pub(in crate::store) struct Job {
    pub(in crate::store) request: Request,
    pub(in crate::store) reply: Option<Sender>,
}

/// Where a result goes.
pub(in crate::store) type Sender = oneshot::Sender<Result<Reply, StoreError>>;

#[derive(Debug, Default)]
pub(in crate::store) struct Reply {
    pub(in crate::store) events: Vec<StoredEvent>,
    pub(in crate::store) runs: Vec<String>,
    pub(in crate::store) forgot: bool,
    pub(in crate::store) session: Option<Box<SessionInfo>>,
    pub(in crate::store) swept: Swept,
    /// The request is refused after all, and what the transaction stored stays.
    pub(in crate::store) refused: Option<Box<StoreError>>,
}

impl Reply {
    /// The reply with this event, or the refusal.
    pub(in crate::store) fn of(event: Result<StoredEvent, StoreError>) -> Self {
        match event {
            Ok(event) => Self {
                events: vec![event],
                ..Self::default()
            },
            Err(refused) => Self {
                refused: Some(Box::new(refused)),
                ..Self::default()
            },
        }
    }

    /// The reply, unless the request was refused.
    pub(in crate::store) fn accepted(self) -> Result<Self, StoreError> {
        match self.refused {
            Some(refused) => Err(*refused),
            None => Ok(self),
        }
    }
}

/// Rows that are deleted in steps.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Cleaning {
    /// The rest of this session, which is marked as deleted.
    Session(i64),
    /// The rest of all sessions that are marked as deleted.
    Leftovers,
    /// Sessions whose last event is older than `sessions`, and the pieces of text of runs that ended before `pieces`.
    Old { sessions: Option<i64>, pieces: i64 },
}

impl Cleaning {
    /// Everything that a retention no longer keeps.
    pub(in crate::store) fn of(retention: Retention, now: Timestamp) -> Self {
        let limit = |age| before(now, age).as_millisecond();
        Self::Old {
            sessions: retention.sessions.map(limit),
            pieces: limit(retention.resume_window),
        }
    }
}

/// The effects of a request that follow its commit.
#[derive(Debug, Default)]
pub(in crate::store) struct Done {
    pub(in crate::store) reply: Reply,
    /// Events by session, in their order.
    pub(in crate::store) publish: Vec<(String, Vec<StoredEvent>)>,
    /// A run that this writer owns from now on, with its epoch.
    pub(in crate::store) opened: Option<(String, i64)>,
    /// Runs that are over.
    pub(in crate::store) closed: Vec<String>,
    pub(in crate::store) deleted: Vec<String>,
    /// The rows that remain to be deleted in further transactions; the request is done with the last of them.
    pub(in crate::store) cleaning: Option<Cleaning>,
    /// A ceiling was raised: the commit has to be durable, or numbers above the old one could be given again.
    pub(in crate::store) raised: bool,
}

impl Request {
    /// The session that it is about, or none in particular.
    pub(in crate::store) fn session_id(&self) -> &str {
        match self {
            Self::OpenSession { first, .. } | Self::OpenRun(first) => session_of(&first.event.meta),
            Self::Append(drafts) => drafts.first().map_or("", |first| session_of(&first.event.meta)),
            Self::Abandon { session_id, .. }
            | Self::Forget { session_id, .. }
            | Self::Delete { session_id, .. } => session_id,
            Self::Fork(copy) => &copy.from,
            Self::Recover
            | Self::Revoke(_)
            | Self::Resolve(_)
            | Self::Sweep(_)
            | Self::Check
            | Self::Wake
            | Self::Close => "",
        }
    }

    /// Whether it frees space.
    #[cfg(feature = "sqlite")]
    pub(in crate::store) fn frees_space(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::Sweep(_))
    }

    /// Whether it stores nothing but pieces of text.
    #[cfg(feature = "sqlite")]
    pub(in crate::store) fn is_chunks(&self) -> bool {
        let is_chunk = |draft: &Draft| draft.class == EventClass::Journaled;
        matches!(self, Self::Append(drafts) if drafts.iter().all(is_chunk))
    }
}
