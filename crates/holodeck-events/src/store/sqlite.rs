//! The event store in a SQLite file: one writing thread, and readers that never wait for it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::{Semaphore, oneshot};

use super::{
    AlwaysApproved, ApprovalAnswer, ApprovalInfo, EventStore, Retention, RunInfo, SessionCursor, SessionInfo,
    StoreError, StoredEvent, Subscription, Swept, check_cursor,
    columns::{list_from, read_event, read_session_info},
    fill_page,
    hub::Hub,
    request::{Copy, Job, Reply, Request},
    session_of,
};
use crate::{Clock, Draft, Ids, RandomIds, SystemClock};

mod approvals;
mod checkpointer;
mod clean;
mod database;
mod fork;
mod lease;
mod query;
mod reading;
mod rows;
mod space;
pub(in crate::store) mod statements;
mod tables;
mod writer;

use query::Tables;
use statements as sql;
use writer::Writer;

/// Connections that are kept for the next reader.
const IDLE_READERS: usize = 4;

/// Queries at the same time. Each has a connection and a thread.
const READERS: usize = 8;

/// A store in a SQLite file, which several processes may open. Clones share it.
///
/// One thread writes; what it commits is delivered afterwards. Content and what a client must see again reaches the disk
/// before that; pieces of text survive the end of the process, and not that of the machine. Call it within a Tokio
/// runtime: reading happens on its threads for blocking work.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
}

/// The state that the writing thread and the readers share.
struct Shared {
    path: PathBuf,
    hub: Hub,
    /// Idle connections. Readers never wait for a writer.
    readers: Mutex<Vec<Connection>>,
    /// Places for queries.
    reading: Arc<Semaphore>,
    /// How long the latest transaction took, in nanoseconds.
    transaction: AtomicU64,
}

/// Settings of a [`SqliteStore`].
#[derive(Clone)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The time of the events that the store itself writes, of sweeps and of leases.
    pub clock: Arc<dyn Clock>,
    /// Their ids.
    pub ids: Arc<dyn Ids>,
    /// How long a process may show no sign of life until others have ended its runs. One that ended loses them at once.
    pub lease: Duration,
    /// Whether the store looks by itself for runs of other processes that are gone, and ends them. Otherwise only
    /// [`EventStore::recover`], the next run of the session, an answer or a deletion does.
    pub watches: bool,
    /// Whether messages, calls, results, questions and ends reach the disk before they count as stored. Otherwise they
    /// survive the end of the process, and not that of the machine.
    pub durable_content: bool,
    /// The same for pieces of text.
    pub durable_chunks: bool,
    /// The most pages of 4 KiB that the file may have.
    pub max_pages: Option<u32>,
    /// Bytes of a file beside it that is given up when the disk is full, so that conversations can be deleted; 0: none.
    pub reserve_bytes: u64,
    /// Looks for the free bytes on the disk of a folder. Without it, the disk counts as full only once a write fails.
    pub free_space: Option<fn(&Path) -> Option<u64>>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            lease: Duration::from_secs(10),
            watches: true,
            durable_content: true,
            durable_chunks: false,
            max_pages: None,
            reserve_bytes: 0,
            free_space: None,
        }
    }
}

impl Shared {
    fn of(path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            path,
            hub: Hub::default(),
            readers: Mutex::default(),
            reading: Arc::new(Semaphore::new(READERS)),
            transaction: AtomicU64::default(),
        })
    }
}

impl SqliteStore {
    /// Whether a file that exists may be such a store, by its first bytes.
    pub fn may_open(path: &Path) -> bool {
        database::may_be_store(path)
    }

    /// Opens the file, or creates it, and ends the runs whose processes are gone.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let shared = Shared::of(path.as_ref().to_owned());
        let (jobs, receiver) = mpsc::channel();
        let (opened, open) = oneshot::channel();
        let writer_shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("holodeck-events".to_owned())
            .spawn(move || match Writer::open(writer_shared, options) {
                Ok(writer) => {
                    if opened.send(Ok(())).is_ok() {
                        writer.run(&receiver);
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            })
            .map_err(StoreError::failed)?;
        open.await.map_err(|_| closed())??;
        Ok(Self { shared, jobs })
    }

    /// A store without a thread that writes.
    fn reading(path: PathBuf) -> Self {
        let (jobs, _) = mpsc::channel();
        Self {
            shared: Shared::of(path),
            jobs,
        }
    }

    /// Finishes what was requested before and closes the file. Open runs end when another store opens it.
    pub async fn close(self) -> Result<(), StoreError> {
        self.request(Request::Close).await.map(|_| ())
    }

    /// How long the latest transaction took, on the thread that writes. The rest of an append's time is the way there and
    /// back.
    pub fn transaction_time(&self) -> Duration {
        Duration::from_nanos(self.shared.transaction.load(Ordering::Relaxed))
    }

    async fn request(&self, request: Request) -> Result<Reply, StoreError> {
        let (reply, result) = oneshot::channel();
        let job = Job {
            request,
            reply: Some(reply),
        };
        self.jobs.send(job).map_err(|_| closed())?;
        result.await.map_err(|_| closed())??.accepted()
    }

    /// Reads on a thread for blocking work.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(Tables<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed. The place is kept until the thread is done, also if the caller gives up.
        let place = Arc::clone(&self.shared.reading).acquire_owned().await.ok();
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let _place = place;
            let readers = || shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = readers().pop();
            let connection = match idle {
                Some(connection) => connection,
                None => database::connect_reader(&shared.path)?,
            };
            let result = read(Tables::of(&connection));
            let mut idle = readers();
            if idle.len() < IDLE_READERS {
                idle.push(connection);
            }
            result
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(StoreError::failed)?
    }
}

#[async_trait]
impl EventStore for SqliteStore {
    async fn open_session(
        &self,
        first: Draft,
        owner: Option<&str>,
    ) -> Result<Option<StoredEvent>, StoreError> {
        let owner = owner.map(ToOwned::to_owned);
        let mut reply = self.request(Request::OpenSession { first, owner }).await?;
        Ok(reply.events.pop())
    }

    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError> {
        let session_id = session_of(&first.event.meta).to_owned();
        let mut reply = self.request(Request::OpenRun(first)).await?;
        reply
            .events
            .pop()
            .ok_or(StoreError::SessionNotFound { session_id })
    }

    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError> {
        Ok(self.request(Request::Append(drafts)).await?.events)
    }

    fn abandon(&self, session_id: &str, run_id: &str) {
        let (session_id, run_id) = (session_id.to_owned(), run_id.to_owned());
        // The thread of a closed store is gone, and its runs end when another store opens the file.
        let _ = self.jobs.send(Job {
            request: Request::Abandon { session_id, run_id },
            reply: None,
        });
    }

    async fn recover(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.request(Request::Recover).await?.runs)
    }

    async fn read_page(
        &self,
        session_id: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let session_id = session_id.to_owned();
        let from = after
            .map_or(0, |after| after.saturating_add(1))
            .min(i64::MAX as u64);
        self.read(move |tables| {
            let values = params![session_id, from, limit.max(1)];
            tables.read(
                sql::PAGE,
                values,
                |row| read_event(row),
                |events| fill_page(events, limit),
            )
        })
        .await
    }

    async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription, StoreError> {
        // First: a deletion after the look at the session ends the subscription.
        let subscription = self
            .shared
            .hub
            .subscribe(Arc::new(self.clone()), session_id, after);
        let Some(session) = self.session(session_id).await? else {
            return Err(StoreError::SessionNotFound {
                session_id: session_id.to_owned(),
            });
        };
        check_cursor(after, session.head)?;
        // The thread begins to look for events of other processes.
        let wake = Job {
            request: Request::Wake,
            reply: None,
        };
        self.jobs.send(wake).map_err(|_| closed())?;
        Ok(subscription)
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.request(Request::Check).await.map(drop)
    }

    async fn is_taken(&self, session_id: &str, user: &str) -> Result<bool, StoreError> {
        let (session_id, user) = (session_id.to_owned(), user.to_owned());
        self.read(move |tables| {
            let taken = tables.first(sql::TAKEN, [session_id, user], |row| Ok(row.get::<_, bool>(0)?))?;
            Ok(taken.unwrap_or_default())
        })
        .await
    }

    async fn session(&self, session_id: &str) -> Result<Option<SessionInfo>, StoreError> {
        let session_id = session_id.to_owned();
        self.read(move |tables| rows::session_info(tables, &session_id))
            .await
    }

    async fn run(&self, run_id: &str) -> Result<Option<RunInfo>, StoreError> {
        let run_id = run_id.to_owned();
        self.read(move |tables| rows::run_info(tables, &run_id)).await
    }

    async fn sessions_page(
        &self,
        owner: Option<&str>,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let owner = owner.map(ToOwned::to_owned);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (last_at, session_id) = list_from(after);
        self.read(move |tables| match owner {
            Some(owner) => {
                let values = params![last_at, session_id, limit, owner];
                tables.all(sql::SESSIONS_OF, values, |row| read_session_info(row))
            }
            None => tables.all(sql::SESSIONS, params![last_at, session_id, limit], |row| {
                read_session_info(row)
            }),
        })
        .await
    }

    async fn resolve_approval(&self, answer: ApprovalAnswer) -> Result<StoredEvent, StoreError> {
        let approval_id = answer.approval_id.clone();
        let mut reply = self.request(Request::Resolve(answer)).await?;
        reply
            .events
            .pop()
            .ok_or(StoreError::ApprovalNotFound { approval_id })
    }

    async fn approval(&self, approval_id: &str) -> Result<Option<ApprovalInfo>, StoreError> {
        let approval_id = approval_id.to_owned();
        self.read(move |tables| {
            let approval = approvals::find(tables, &approval_id)?;
            Ok(approval.and_then(|approval| approval.info()))
        })
        .await
    }

    async fn approvals(
        &self,
        session_id: Option<&str>,
        owner: Option<&str>,
    ) -> Result<Vec<ApprovalInfo>, StoreError> {
        let (session_id, owner) = (session_id.map(str::to_owned), owner.map(str::to_owned));
        self.read(move |tables| approvals::pending(tables, session_id.as_deref(), owner.as_deref()))
            .await
    }

    async fn remembered_approvals(&self, session_id: &str) -> Result<Vec<String>, StoreError> {
        let session_id = session_id.to_owned();
        self.read(move |tables| approvals::remembered_tools(tables, &session_id))
            .await
    }

    async fn always_approved(
        &self,
        agent: &str,
        owner: Option<&str>,
    ) -> Result<Vec<AlwaysApproved>, StoreError> {
        let (agent, owner) = (agent.to_owned(), owner.map(ToOwned::to_owned));
        self.read(move |tables| approvals::always(tables, &agent, owner.as_deref()))
            .await
    }

    async fn revoke_always(&self, approved: AlwaysApproved) -> Result<bool, StoreError> {
        Ok(self.request(Request::Revoke(approved)).await?.forgot)
    }

    async fn forget_approval(&self, session_id: &str, tool: &str) -> Result<bool, StoreError> {
        let (session_id, tool) = (session_id.to_owned(), tool.to_owned());
        Ok(self.request(Request::Forget { session_id, tool }).await?.forgot)
    }

    async fn fork_session(
        &self,
        from: &str,
        after_index: Option<u64>,
        session_id: &str,
        owner: Option<&str>,
    ) -> Result<SessionInfo, StoreError> {
        let copy = Copy {
            from: from.to_owned(),
            after_index,
            session_id: session_id.to_owned(),
            owner: owner.map(ToOwned::to_owned),
        };
        let reply = self.request(Request::Fork(copy)).await?;
        let forked = reply.session.map(|session| *session);
        forked.ok_or_else(|| StoreError::SessionNotFound {
            session_id: from.to_owned(),
        })
    }

    async fn delete_session(&self, session_id: &str, force: bool) -> Result<(), StoreError> {
        let session_id = session_id.to_owned();
        let delete = Request::Delete { session_id, force };
        self.request(delete).await.map(|_| ())
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError> {
        Ok(self.request(Request::Sweep(retention)).await?.swept)
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::failed("the store is closed")
}
