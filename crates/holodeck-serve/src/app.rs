//! The state of a server: its agents, store, limits and metrics, shared by all handlers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use holodeck_chat::{AgentRunService, RunHandle};
use holodeck_events::{ApprovalAnswer, EventStore, SessionInfo, StoreError, StoredEvent, Subscription};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use crate::{
    OnDisconnect, ServeOptions, ServedAgent,
    metrics::Metrics,
    problem::{Problem, Result},
    reader_bytes::ReaderBytes,
    repeats::{Kind, Repeats},
    threads::Threads,
};

/// How long the store may take to answer the question whether it is there.
const STORE_LIMIT: Duration = Duration::from_secs(2);

/// Readers for which the store is read at a time. What they read and do not send yet is not among the bytes of readers.
const READS: usize = 2;

/// Agents and the store of their conversations, as a server offers them. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    agents: Vec<Served>,
    store: Arc<dyn EventStore>,
    options: ServeOptions,
    /// Places for runs of all agents.
    capacity: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    reader_bytes: ReaderBytes,
    reads: Arc<Semaphore>,
    repeats: Repeats,
    /// The last answer to the question whether events can be stored, and when it was looked for.
    stores: AsyncMutex<Option<(Instant, bool)>>,
    /// The clients that follow each conversation.
    followers: Mutex<HashMap<String, usize>>,
    threads: Threads,
    /// The services of requests that no person attends, while they run.
    unattended: Mutex<HashMap<u64, AgentRunService>>,
    /// The number of the next one.
    next_unattended: AtomicU64,
    /// The places that are taken.
    places: TaskTracker,
    is_draining: AtomicBool,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// A place for one run, among those of all agents and of its own; free again when dropped.
pub(crate) struct Place(
    #[expect(dead_code, reason = "held during the run")] OwnedSemaphorePermit,
    #[expect(dead_code, reason = "held during the run")] OwnedSemaphorePermit,
    #[expect(dead_code, reason = "held during the run")] TaskTrackerToken,
);

/// The service of one request that no person attends. Until it is dropped, what it runs can be found, drained and stopped.
pub(crate) struct Unattended {
    app: App,
    number: u64,
    pub(crate) service: AgentRunService,
}

impl Drop for Unattended {
    fn drop(&mut self) {
        self.app.unattended_services().remove(&self.number);
    }
}

struct Served {
    agent: ServedAgent,
    capacity: Arc<Semaphore>,
}

impl App {
    /// Offers agents, the first of which answers where a client names none. All of them use `store`. Their names
    /// differ, and there is at least one.
    pub fn new(agents: Vec<ServedAgent>, store: Arc<dyn EventStore>, options: ServeOptions) -> Self {
        let capacity = |runs: usize| Arc::new(Semaphore::new(runs.min(Semaphore::MAX_PERMITS)));
        let served = |agent: ServedAgent| Served {
            capacity: capacity(agent.max_runs),
            agent,
        };
        Self(Arc::new(Inner {
            agents: agents.into_iter().map(served).collect(),
            store,
            capacity: capacity(options.max_runs),
            options,
            metrics: Arc::default(),
            reader_bytes: ReaderBytes::default(),
            reads: Arc::new(Semaphore::new(READS)),
            repeats: Repeats::default(),
            stores: AsyncMutex::default(),
            followers: Mutex::default(),
            threads: Threads::default(),
            unattended: Mutex::default(),
            next_unattended: AtomicU64::new(0),
            places: TaskTracker::new(),
            is_draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    pub(crate) fn options(&self) -> &ServeOptions {
        &self.0.options
    }

    pub(crate) fn store(&self) -> &Arc<dyn EventStore> {
        &self.0.store
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The events of a conversation after this index, or all, for a client.
    pub(crate) async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription> {
        let events = self.0.store.subscribe(session_id, after).await?;
        Ok(events.with_reads(&self.0.reads))
    }

    /// The permits to read events for clients.
    pub(crate) fn reads(&self) -> &Arc<Semaphore> {
        &self.0.reads
    }

    /// The bytes that wait for readers.
    pub(crate) fn reader_bytes(&self) -> &ReaderBytes {
        &self.0.reader_bytes
    }

    /// The counts of what clients repeat.
    pub(crate) fn repeats(&self) -> &Repeats {
        &self.0.repeats
    }

    /// Counts a client that is disconnected because it takes no data.
    pub(crate) fn count_slow_consumer(&self) {
        self.0.metrics.count_slow_consumer();
        self.0.repeats.note(Kind::SlowReader, None);
    }

    /// Events of the store that broke the event contract.
    pub(crate) fn contract_violations(&self) -> u64 {
        let agents = self.0.agents.iter();
        agents
            .map(|served| served.agent.service.contract_violations())
            .sum()
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Cancelled when open streams must end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = &ServedAgent> {
        self.0.agents.iter().map(|served| &served.agent)
    }

    /// The agent of this name, or the first one.
    pub(crate) fn agent(&self, name: Option<&str>) -> Result<&ServedAgent> {
        let mut agents = self.agents();
        match name {
            Some(name) => agents
                .find(|agent| agent.name == name)
                .ok_or_else(|| Problem::agent_not_found(name)),
            None => agents.next().ok_or_else(|| Problem::agent_not_found("")),
        }
    }

    /// The agent of a conversation that exists.
    pub(crate) fn agent_of(&self, session: &SessionInfo) -> Result<&ServedAgent> {
        self.agent(session.agent.as_deref())
    }

    /// The conversation that this user names like this. It may be stored under another id.
    pub(crate) async fn session(&self, session_id: &str, user: &str) -> Result<SessionInfo> {
        let stored_id = self.stored_id(session_id, user).await?;
        self.stored_session(&stored_id, user).await
    }

    /// The conversation of this user that is stored under this id.
    pub(crate) async fn stored_session(&self, session_id: &str, user: &str) -> Result<SessionInfo> {
        let known = self.0.store.session(session_id).await?;
        known
            .filter(|session| session.owner.as_deref() == Some(user))
            .ok_or_else(|| Problem::session_not_found(session_id))
    }

    /// Answers a question about a tool call, as the agent of its conversation accepts it.
    pub(crate) async fn answer(&self, answer: ApprovalAnswer) -> Result<StoredEvent> {
        let asked = self.0.store.approval(&answer.approval_id).await?;
        let asked = asked.filter(|asked| asked.owner == answer.user);
        let approval_id = answer.approval_id.clone();
        let asked = asked.ok_or(StoreError::ApprovalNotFound { approval_id })?;
        let agent = self.agent(asked.agent.as_deref())?;
        Ok(agent.service.answer(answer).await?)
    }

    /// A place for one more run of an agent.
    pub(crate) fn admit(&self, agent: &ServedAgent) -> Result<Place> {
        // Taken first: draining waits for it, or it is refused.
        let token = self.0.places.token();
        if self.is_draining() {
            return Err(Problem::closing());
        }
        let served = self
            .0
            .agents
            .iter()
            .find(|served| served.agent.name == agent.name);
        let take = |capacity: &Arc<Semaphore>| Arc::clone(capacity).try_acquire_owned().ok();
        let place =
            take(&self.0.capacity).and_then(|of_all| Some(Place(of_all, take(&served?.capacity)?, token)));
        place.ok_or_else(|| {
            self.metrics().count_refused();
            let limit = agent.max_runs.min(self.options().max_runs);
            let detail = format!("{limit} runs are active, which is the limit");
            Problem::new(http::StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_RUNS", detail).retry_after(5)
        })
    }

    /// Whether events can be stored. Questions that wait for each other have one answer, which is newer than all of them.
    pub(crate) async fn has_store(&self) -> bool {
        let asked_at = Instant::now();
        let mut last = self.0.stores.lock().await;
        if let Some((began_at, answer)) = *last
            && began_at > asked_at
        {
            return answer;
        }
        let began_at = Instant::now();
        let checked = timeout(STORE_LIMIT, self.0.store.check_writable()).await;
        let can_store = matches!(checked, Ok(Ok(())));
        *last = Some((began_at, can_store));
        can_store
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::SeqCst)
    }

    /// Refuses new runs from now on.
    pub(crate) fn begin_draining(&self) {
        self.0.is_draining.store(true, Ordering::SeqCst);
    }

    /// Waits for the end of all runs.
    pub(crate) async fn drain(&self) {
        for agent in self.agents() {
            agent.service.drain().await;
        }
        self.0.places.close();
        self.0.places.wait().await;
    }

    /// Stops all runs and waits until they are stored.
    pub(crate) async fn close(&self) {
        let services: Vec<_> = {
            let agents = self.agents().map(|agent| agent.service.clone());
            agents
                .chain(self.unattended_services().values().cloned())
                .collect()
        };
        join_all(services.iter().map(AgentRunService::close)).await;
    }

    /// The turns of requests in AG-UI threads.
    pub(crate) fn threads(&self) -> &Threads {
        &self.0.threads
    }

    /// A service of an agent for one request that no person attends.
    pub(crate) fn unattended(&self, agent: &ServedAgent, store: Arc<dyn EventStore>) -> Unattended {
        let service = (agent.unattended)(store);
        let number = self.0.next_unattended.fetch_add(1, Ordering::Relaxed);
        self.unattended_services().insert(number, service.clone());
        Unattended {
            app: self.clone(),
            number,
            service,
        }
    }

    /// A run in a stored conversation, if this process runs it at present.
    pub(crate) fn run(&self, run_id: &str) -> Option<RunHandle> {
        self.storing_services()
            .into_iter()
            .find_map(|service| service.run(run_id))
    }

    /// The runs of a stored conversation that this process runs at present.
    pub(crate) fn runs_of(&self, session_id: &str) -> Vec<RunHandle> {
        self.storing_services()
            .into_iter()
            .flat_map(|service| service.runs_of(session_id))
            .collect()
    }

    /// The services that record in the store of the server. Those that record nothing there use the names of conversations,
    /// too.
    fn storing_services(&self) -> Vec<AgentRunService> {
        let agents = self.agents().map(|agent| agent.service.clone());
        let unattended = self.unattended_services();
        let storing = unattended
            .values()
            .filter(|service| Arc::ptr_eq(service.store(), self.store()));
        agents.chain(storing.cloned()).collect()
    }

    fn unattended_services(&self) -> MutexGuard<'_, HashMap<u64, AgentRunService>> {
        self.0.unattended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a client that follows a conversation, until the guard is dropped.
    pub(crate) fn follow(&self, session_id: &str) -> Follower {
        *self.followers().entry(session_id.to_owned()).or_default() += 1;
        Follower {
            app: self.clone(),
            session_id: session_id.to_owned(),
        }
    }

    /// Whether a client follows a conversation.
    pub(crate) fn is_followed(&self, session_id: &str) -> bool {
        self.followers().contains_key(session_id)
    }

    fn followers(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that follows a conversation. The last one that leaves may end what is being answered.
pub(crate) struct Follower {
    app: App,
    session_id: String,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let is_last = {
            let mut followers = self.app.followers();
            let count = followers.entry(self.session_id.clone()).or_default();
            *count = count.saturating_sub(1);
            let is_last = *count == 0;
            if is_last {
                followers.remove(&self.session_id);
            }
            is_last
        };
        if is_last && self.app.options().on_disconnect == OnDisconnect::Cancel {
            for agent in self.app.agents() {
                for run in agent.service.runs_of(&self.session_id) {
                    run.cancel();
                }
            }
        }
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
