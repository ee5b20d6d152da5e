//! The event store in PostgreSQL, which several processes may use: connections, leases and notifications.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicI64},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::{
    sync::{
        Mutex as AsyncMutex,
        mpsc::{UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::JoinHandle,
    time::Instant,
};

use super::{
    AlwaysApproved, ApprovalAnswer, ApprovalInfo, EventStore, Retention, RunInfo, SessionCursor, SessionInfo,
    StoreError, StoredEvent, Subscription, Swept, check_cursor,
    columns::number,
    hub::Hub,
    request::{Cleaning, Copy, Job, Reply, Request, Sender},
    session_of,
};
use crate::{Clock, Draft, Ids, RandomIds, SystemClock};

mod approvals;
mod clean;
mod connection;
mod keeper;
mod lease;
mod rows;
mod schema;
pub(in crate::store) mod statements;
mod tables;
mod worker;

use connection::{Db, Failure, Target};
use keeper::Keeper;
use lease::Lease;
use statements as sql;
use worker::{Errand, Worker};

/// Tasks that write, each with a connection. A session always has the same one.
const WORKERS: usize = 4;

/// How long a lost connection is reopened before an error is reported: longer than a restart of the server.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long to wait before another try to read.
const PAUSE: Duration = Duration::from_millis(50);

/// A store in a PostgreSQL database, which several processes may open. Clones share it.
///
/// Events that a process commits are delivered to its own subscribers at once, and to those of other processes by the
/// server's notifications. All of it reaches the server's disk before that, pieces of text too: a run outlives a crash
/// of the server, and its pieces must then be its message. It works within the Tokio runtime that opens it.
///
/// Each process holds an advisory lock and shows a beat by the server's clock. One that ends loses its runs at once, one
/// that is silent for [`PostgresOptions::lease`] loses them then, and one whose connections were lost, also by a restart of
/// the server, reopens them and keeps its runs unless another process ended them meanwhile.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    tasks: Arc<Tasks>,
}

/// Background tasks, which end with the last handle.
struct Tasks {
    workers: Vec<UnboundedSender<Job>>,
    keeper: UnboundedSender<Errand>,
    /// Ends the lease when it is dropped.
    lease: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

/// The state that the tasks and the readers share.
struct Shared {
    target: Target,
    hub: Hub,
    options: PostgresOptions,
    /// The name of this writer, never used before.
    name: String,
    /// The notification channel of the stores in these tables.
    channel: String,
    /// The key of the advisory lock that is held while this writer lives.
    lock_key: AtomicI64,
    /// The open runs that this writer owns.
    own: Mutex<HashMap<String, Own>>,
    /// Those that nothing will continue.
    abandoned: Mutex<HashSet<String>>,
    /// Queries of several tasks are pipelined on it.
    reader: AsyncMutex<Option<Arc<Db>>>,
}

/// A run of this writer.
#[derive(Clone, Copy)]
struct Own {
    epoch: i64,
    /// The index after the last one that was delivered.
    next_index: u64,
}

/// Settings of a [`PostgresStore`].
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The time of the events that the store itself writes, and of sweeps. Leases go by the server's clock.
    pub clock: Arc<dyn Clock>,
    /// Their ids.
    pub ids: Arc<dyn Ids>,
    /// How long a process may show no sign of life until others have ended its runs. One that ended loses them at once.
    pub lease: Duration,
    /// Whether the store looks by itself for runs of other processes that are gone, and ends them. Otherwise only
    /// [`EventStore::recover`], the next run of the session, an answer or a deletion does.
    pub watches: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            lease: Duration::from_secs(10),
            watches: true,
        }
    }
}

/// A query that may be repeated on another connection.
type Query<'w, 'f, T> = &'w (dyn Fn(Arc<Db>) -> BoxFuture<'f, Result<T, Failure>> + Send + Sync);

impl Shared {
    fn own(&self) -> MutexGuard<'_, HashMap<String, Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abandoned(&self) -> MutexGuard<'_, HashSet<String>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads. It is repeated for a while if the connection was lost.
    async fn read<T>(&self, query: Query<'_, '_, T>) -> Result<T, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let done = match self.reader().await {
                Ok(db) => query(db).await,
                Err(failure) => Err(failure),
            };
            match done {
                Ok(done) => return Ok(done),
                Err(failure) if failure.is_passing() && Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => return Err(self.target.error(failure)),
            }
        }
    }

    async fn reader(&self) -> Result<Arc<Db>, Failure> {
        let mut reader = self.reader.lock().await;
        if let Some(db) = &*reader
            && !db.is_closed()
        {
            return Ok(Arc::clone(db));
        }
        let db = Arc::new(self.target.connect().await?);
        *reader = Some(Arc::clone(&db));
        Ok(db)
    }
}

impl PostgresStore {
    /// Opens the database of `url` (`postgresql://user@host/database`), creates the tables, whose names begin with
    /// `holodeck_`, in the first schema of the connection's `search_path`, and ends the runs whose processes are gone.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let target = Target::new(url)?;
        let opened = async {
            let db = schema::prepare(&target).await?;
            let row = db.query_opt(sql::SCHEMA, &[]).await?;
            let schema = row.map(|row| number(&row, 0)).transpose()?;
            Ok((db, schema.unwrap_or_default()))
        };
        let (db, schema) = match opened.await {
            Ok(opened) => opened,
            Err(failure) => return Err(target.error(failure)),
        };
        let shared = Arc::new(Shared {
            target,
            hub: Hub::default(),
            options,
            name: uuid::Uuid::new_v4().to_string(),
            channel: format!("holodeck_{schema}"),
            lock_key: AtomicI64::default(),
            own: Mutex::default(),
            abandoned: Mutex::default(),
            reader: AsyncMutex::new(Some(Arc::new(db))),
        });
        let lease = Lease::take(&shared)
            .await
            .map_err(|failure| shared.target.error(failure))?;
        let (stop, stopped) = oneshot::channel();
        let lease = tokio::spawn(lease.keep(Arc::clone(&shared), stopped));
        let (keeper, errands) = unbounded_channel();
        tokio::spawn(Keeper::new(Arc::clone(&shared)).run(errands));
        let workers = (0..WORKERS).map(|_| {
            let (jobs, receiver) = unbounded_channel();
            tokio::spawn(Worker::new(Arc::clone(&shared)).run(receiver, keeper.clone()));
            jobs
        });
        let store = Self {
            tasks: Arc::new(Tasks {
                workers: workers.collect(),
                keeper,
                lease: Mutex::new(Some((stop, lease))),
            }),
            shared,
        };
        match store.recover().await {
            // A full store can still be read.
            Ok(_) | Err(StoreError::Full) => Ok(store),
            Err(error) => Err(error),
        }
    }

    /// Finishes what was requested before and closes the connections. Open runs end when another store opens the database.
    pub async fn close(self) -> Result<(), StoreError> {
        for worker in &self.tasks.workers {
            ask(worker, Request::Close).await?;
        }
        let (sender, closed) = oneshot::channel();
        if self.tasks.keeper.send(Errand::Close(sender)).is_ok() {
            let _ = closed.await;
        }
        let lease = self
            .tasks
            .lease
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((stop, lease)) = lease {
            let _ = stop.send(());
            let _ = lease.await;
        }
        self.shared.reader.lock().await.take();
        Ok(())
    }

    /// The worker of a session.
    fn worker(&self, session_id: &str) -> Result<&UnboundedSender<Job>, StoreError> {
        let mut hasher = DefaultHasher::new();
        session_id.hash(&mut hasher);
        let at = hasher.finish() % WORKERS as u64;
        let worker = usize::try_from(at).ok().and_then(|at| self.tasks.workers.get(at));
        worker.ok_or_else(closed)
    }

    async fn request(&self, request: Request) -> Result<Reply, StoreError> {
        ask(self.worker(request.session_id())?, request).await
    }

    /// A request to the keeper, after everything that was asked before.
    async fn request_after_all(&self, errand: impl FnOnce(Sender) -> Errand) -> Result<Reply, StoreError> {
        for worker in &self.tasks.workers {
            ask(worker, Request::Wake).await?;
        }
        let (reply, result) = oneshot::channel();
        self.tasks.keeper.send(errand(reply)).map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

async fn ask(worker: &UnboundedSender<Job>, request: Request) -> Result<Reply, StoreError> {
    let (reply, result) = oneshot::channel();
    let job = Job {
        request,
        reply: Some(reply),
    };
    worker.send(job).map_err(|_| closed())?;
    result.await.map_err(|_| closed())??.accepted()
}

#[async_trait]
impl EventStore for PostgresStore {
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
        if let Ok(worker) = self.worker(&session_id) {
            // The tasks of a closed store are gone, and its runs end when another store opens the database.
            let _ = worker.send(Job {
                request: Request::Abandon { session_id, run_id },
                reply: None,
            });
        }
    }

    async fn recover(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.request_after_all(Errand::Recover).await?.runs)
    }

    async fn read_page(
        &self,
        session_id: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { rows::page(&db, session_id, after, limit).await }))
            .await
    }

    async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription, StoreError> {
        if self.worker(session_id)?.is_closed() {
            return Err(closed());
        }
        // First: a deletion after the look at the session ends the subscription.
        let store = Arc::new(self.clone());
        let subscription = self.shared.hub.subscribe(store, session_id, after);
        let Some(session) = self.session(session_id).await? else {
            return Err(StoreError::SessionNotFound {
                session_id: session_id.to_owned(),
            });
        };
        check_cursor(after, session.head)?;
        Ok(subscription)
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let written = shared
            .read(&|db| Box::pin(async move { lease::beat(shared, &db).await }))
            .await;
        shared.hub.failures.observe(written.as_ref().err());
        written
    }

    async fn is_taken(&self, session_id: &str, user: &str) -> Result<bool, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { rows::is_taken(&db, session_id, user).await }))
            .await
    }

    async fn session(&self, session_id: &str) -> Result<Option<SessionInfo>, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { rows::session_info(&db, session_id).await }))
            .await
    }

    async fn run(&self, run_id: &str) -> Result<Option<RunInfo>, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { rows::run_info(&db, run_id).await }))
            .await
    }

    async fn sessions_page(
        &self,
        owner: Option<&str>,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.shared
            .read(&|db| Box::pin(async move { rows::sessions(&db, owner, after, limit).await }))
            .await
    }

    async fn resolve_approval(&self, answer: ApprovalAnswer) -> Result<StoredEvent, StoreError> {
        let approval_id = answer.approval_id.clone();
        let not_found = || StoreError::ApprovalNotFound {
            approval_id: approval_id.clone(),
        };
        let known = self.approval(&approval_id).await?.ok_or_else(not_found)?;
        // After what its session was asked to store before.
        let worker = self.worker(&known.session_id)?;
        let mut reply = ask(worker, Request::Resolve(answer)).await?;
        reply.events.pop().ok_or_else(not_found)
    }

    async fn approval(&self, approval_id: &str) -> Result<Option<ApprovalInfo>, StoreError> {
        let known = self
            .shared
            .read(&|db| Box::pin(async move { approvals::find(&db, approval_id).await }))
            .await?;
        Ok(known.and_then(|approval| approval.info()))
    }

    async fn approvals(
        &self,
        session_id: Option<&str>,
        owner: Option<&str>,
    ) -> Result<Vec<ApprovalInfo>, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { approvals::pending(&db, session_id, owner).await }))
            .await
    }

    async fn remembered_approvals(&self, session_id: &str) -> Result<Vec<String>, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { approvals::remembered_tools(&db, session_id).await }))
            .await
    }

    async fn always_approved(
        &self,
        agent: &str,
        owner: Option<&str>,
    ) -> Result<Vec<AlwaysApproved>, StoreError> {
        self.shared
            .read(&|db| Box::pin(async move { approvals::always(&db, agent, owner).await }))
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
        let forked = self.request(Request::Fork(copy)).await?.session;
        forked
            .map(|session| *session)
            .ok_or_else(|| StoreError::SessionNotFound {
                session_id: from.to_owned(),
            })
    }

    async fn delete_session(&self, session_id: &str, force: bool) -> Result<(), StoreError> {
        let session_id = session_id.to_owned();
        let delete = Request::Delete { session_id, force };
        self.request(delete).await.map(|_| ())
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError> {
        let cleaning = Cleaning::of(retention, self.shared.options.clock.now());
        let clean = |sender| Errand::Clean(cleaning, Some(sender));
        Ok(self.request_after_all(clean).await?.swept)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("place", &self.shared.target.place())
            .finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::failed("the store is closed")
}
