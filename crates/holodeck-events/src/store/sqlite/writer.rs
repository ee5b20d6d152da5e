//! The thread that owns the writing connection. It executes requests in their order, many in one transaction, and
//! delivers their events after the commit.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    Shared, SqliteOptions, StoreError,
    checkpointer::{self, Checkpointer},
    clean, database,
    lease::{Observer, WriterLock},
    query::Tables,
    space::{FileId, is_full, keep_reserve, release_reserve},
    statements as sql,
};
use crate::store::{
    cleaning::Chores,
    request::{Cleaning, Done, Job, Reply, Request},
};

/// Requests that share a transaction.
const BATCH: usize = 256;
/// How often to look for events of other processes while there is a subscriber.
const POLL: Duration = Duration::from_millis(50);
/// How often to look whether the pages of the step before are moved.
const MOVING: Duration = Duration::from_millis(1);

pub(super) struct Writer {
    connection: Connection,
    state: State,
    shared: Arc<Shared>,
    /// Whether each commit reaches the disk.
    is_durable: Option<bool>,
    beat_at: Instant,
    /// When it last looked for runs that no process continues.
    watched_at: Instant,
    data_version: i64,
    /// Deletions in steps, between which requests are executed.
    chores: Chores,
    /// When the next step may begin: other processes write meanwhile.
    step_at: Instant,
    /// Moves what is deleted out of the log; started by the first deletion.
    checkpointer: Option<Checkpointer>,
    _lock: WriterLock,
}

/// The state that requests read; it changes only after a commit.
pub(super) struct State {
    /// The name of this writer, never used before.
    pub(super) name: String,
    pub(super) options: SqliteOptions,
    pub(super) shared: Arc<Shared>,
    /// The epoch of each open run that this writer owns.
    pub(super) own: HashMap<String, i64>,
    /// Those that nothing will continue.
    pub(super) abandoned: HashSet<String>,
    pub(super) observer: Observer,
    /// The file that was opened, under its name.
    pub(super) file: Option<FileId>,
}

impl Writer {
    /// Opens the file and recovers it.
    pub(super) fn open(shared: Arc<Shared>, options: SqliteOptions) -> Result<Self, StoreError> {
        let connection = database::connect_writer(&shared.path, options.max_pages)?;
        let name = uuid::Uuid::new_v4().to_string();
        let lock = WriterLock::take(&shared.path, &name)?;
        let mut writer = Self {
            connection,
            state: State {
                name,
                // A look later, and one more until the run is ended, the lease is over.
                observer: Observer::new(options.lease.saturating_sub(2 * watch_interval(&options))),
                file: FileId::of(&shared.path),
                options,
                shared: Arc::clone(&shared),
                own: HashMap::new(),
                abandoned: HashSet::new(),
            },
            shared,
            is_durable: None,
            beat_at: Instant::now(),
            watched_at: Instant::now(),
            data_version: 0,
            chores: Chores::default(),
            step_at: Instant::now(),
            checkpointer: None,
            _lock: lock,
        };
        match writer.execute(&[Request::Recover]) {
            // A full store can still be read.
            Ok(_) | Err(StoreError::Full) => {}
            Err(error) => return Err(error),
        }
        writer.keep_reserve();
        // A process that deleted them may have been killed.
        if clean::leftovers(Tables::of(&writer.connection))?.is_some() {
            writer.chores.add(Cleaning::Leftovers, None);
        }
        Ok(writer)
    }

    /// Works until the store is closed or its last handle is gone.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let job = match self.patience() {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => jobs.recv_timeout(patience),
            };
            match job {
                Ok(job) => {
                    let mut batch = vec![job];
                    batch.extend(jobs.try_iter().take(BATCH));
                    let closing = batch.iter().position(|job| matches!(job.request, Request::Close));
                    let close = closing.map(|at| batch.split_off(at));
                    self.process(batch);
                    if let Some(close) = close {
                        self.leave();
                        // Their senders are dropped, which reports that the store is closed.
                        drop(self);
                        if let Some(reply) = close.into_iter().next().and_then(|job| job.reply) {
                            let _ = reply.send(Ok(Reply::default()));
                        }
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.leave();
                    return;
                }
            }
            self.beat();
            self.look();
            self.watch();
            self.clean();
        }
    }

    /// How long to wait for a request.
    fn patience(&self) -> Option<Duration> {
        let beat = (!self.state.own.is_empty()).then(|| self.beat_interval());
        let poll = self.shared.hub.is_used().then_some(POLL);
        let options = &self.state.options;
        let watch = options.watches.then(|| watch_interval(options));
        let step = (!self.chores.is_empty()).then(|| self.step_at.saturating_duration_since(Instant::now()));
        [beat, poll, watch, step].into_iter().flatten().min()
    }

    fn beat_interval(&self) -> Duration {
        self.state.options.lease / 5
    }

    /// Shows other processes that this one lives.
    fn beat(&mut self) {
        if self.state.own.is_empty() || self.beat_at.elapsed() < self.beat_interval() {
            return;
        }
        self.beat_at = Instant::now();
        // A beat that fails is as if this process had stopped: it may lose its runs, and nothing else.
        let _ = self.set_durable(false).and_then(|()| self.count_beat());
    }

    fn count_beat(&self) -> Result<(), StoreError> {
        Tables::of(&self.connection).execute(sql::COUNT_BEAT, [&self.state.name])?;
        Ok(())
    }

    /// Ends the runs of other processes that are gone.
    fn watch(&mut self) {
        let options = &self.state.options;
        if !options.watches || self.watched_at.elapsed() < watch_interval(options) {
            return;
        }
        self.watched_at = Instant::now();
        self.keep_reserve();
        // What cannot be read or ended now is tried again at the next look.
        if self.state.has_lost_runs(Tables::of(&self.connection)) == Ok(true) {
            self.process(vec![Job {
                request: Request::Recover,
                reply: None,
            }]);
        }
    }

    /// Does the next step of a deletion, if it is time.
    fn clean(&mut self) {
        let Some((cleaning, rows)) = self.chores.next().filter(|_| Instant::now() >= self.step_at) else {
            return;
        };
        let begin = Instant::now();
        if self.checkpointer.as_ref().is_some_and(Checkpointer::is_moving) {
            self.step_at = begin + MOVING;
            return;
        }
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.start_over(&self.connection);
        }
        self.checkpoint_after(0);
        let mut step = self.step(cleaning, rows);
        if matches!(&step, Err(error) if self.gives_reserve(error)) {
            step = self.step(cleaning, rows);
        }
        self.shared.hub.failures.observe(step.as_ref().err());
        let took = begin.elapsed();
        // Others need the file more often than not.
        self.step_at = Instant::now() + 2 * took;
        for session_id in step.iter().flat_map(|done| &done.deleted) {
            self.shared.hub.close(session_id);
        }
        let checkpointer = self
            .checkpointer
            .get_or_insert_with(|| Checkpointer::start(self.shared.path.clone()));
        match self.chores.observe(step.as_ref(), took) {
            // The deleted text is also in the log of the database.
            Some(answer) => checkpointer.empty(answer),
            None => checkpointer.move_pages(),
        }
        if self.chores.is_empty() {
            self.checkpoint_after(checkpointer::LONG);
        }
    }

    /// A commit moves pages when the log has this many; 0: never. During a deletion this is the checkpointer's.
    fn checkpoint_after(&self, pages: i64) {
        // Only the time of a commit depends on it.
        let _ = self
            .connection
            .pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()));
    }

    fn step(&mut self, cleaning: Cleaning, rows: i64) -> Result<Done, StoreError> {
        self.set_durable(false)?;
        let transaction = checkpointer::begin(&self.connection, self.checkpointer.as_ref())?;
        let done = clean::step(Tables::of(&transaction), cleaning, rows)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Wakes subscribers if another process has written.
    fn look(&mut self) {
        if !self.shared.hub.is_used() {
            return;
        }
        let version = self
            .connection
            .pragma_query_value(None, "data_version", |row| row.get(0));
        // An error is not a reason to let subscribers wait.
        if version.as_ref().ok() != Some(&self.data_version) {
            self.data_version = version.unwrap_or(0);
            self.shared.hub.wake();
        }
    }

    /// Leaves the store in a state in which others take over at once what is open.
    fn leave(&mut self) {
        self.chores.leave();
        self.checkpointer = None;
        let _ = Tables::of(&self.connection).execute(sql::LEAVE, [&self.state.name]);
        self.shared.hub.close_all();
    }

    /// Executes requests that came while others were executed. Pieces of text need not reach the disk: they come before
    /// those that do, so that no reader waits for them. The requests of one run wait for each other.
    fn process(&mut self, batch: Vec<Job>) {
        let (pieces, others): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|job| job.request.is_chunks() && !self.state.options.durable_chunks);
        for together in [pieces, others].into_iter().filter(|jobs| !jobs.is_empty()) {
            self.process_together(together);
        }
    }

    fn process_together(&mut self, batch: Vec<Job>) {
        let (requests, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|job| (job.request, job.reply)).unzip();
        let mut results = match self.execute(&requests) {
            Ok(results) => results,
            // Nothing of it is stored. Each by itself, so that one does not fail for another.
            Err(_) if requests.len() > 1 => requests
                .chunks(1)
                .map(|one| {
                    let mut results = self.execute(one)?;
                    results.pop().unwrap_or_else(|| Ok(Done::default()))
                })
                .collect(),
            Err(error) => vec![Err(error)],
        };
        for (request, result) in requests.iter().zip(&mut results) {
            if request.frees_space()
                && matches!(&*result, Err(error) if self.gives_reserve(error))
                && let Ok(mut again) = self.execute(std::slice::from_ref(request))
                && let Some(again) = again.pop()
            {
                *result = again;
            }
            if !matches!(request, Request::Wake) {
                self.shared.hub.failures.observe(result.as_ref().err());
            }
        }
        let mut unattended = Vec::new();
        for ((request, reply), result) in requests.iter().zip(replies).zip(results) {
            match (request, &result) {
                (Request::Abandon { run_id, .. }, Err(_)) => {
                    self.state.abandoned.insert(run_id.clone());
                }
                // It was taken over or deleted.
                (
                    Request::Append(_),
                    Err(StoreError::StaleOwner { run_id } | StoreError::RunNotOpen { run_id }),
                ) => {
                    self.state.own.remove(run_id);
                }
                _ => {}
            }
            let opened = result.as_ref().ok().and_then(|done| done.opened.clone());
            let cleaning = result.as_ref().ok().and_then(|done| done.cleaning);
            let result = result.map(|done| self.finish(done));
            if let (Some(cleaning), Ok(_)) = (cleaning, &result) {
                self.chores.add(cleaning, reply);
                continue;
            }
            let reply = reply.map(|reply| reply.send(result));
            // The caller was cancelled: it does not know of its run.
            if let (Some((run_id, _)), Some(Err(_))) = (opened, reply) {
                let session_id = request.session_id().to_owned();
                unattended.push(Request::Abandon { session_id, run_id });
            }
        }
        for request in unattended {
            self.process(vec![Job { request, reply: None }]);
        }
    }

    fn keep_reserve(&self) {
        let options = &self.state.options;
        keep_reserve(&self.shared.path, options.reserve_bytes, options.free_space);
    }

    /// Whether the error is that of a full disk, and the reserve was given up for what frees space.
    fn gives_reserve(&self, error: &StoreError) -> bool {
        let path = &self.shared.path;
        let is_space = match error {
            StoreError::Full => true,
            // Some calls fail in another way on a full disk.
            StoreError::Failed { .. } => is_full(path, self.state.options.free_space),
            _ => false,
        };
        is_space && release_reserve(path)
    }

    /// Delivers what is committed.
    fn finish(&mut self, done: Done) -> Reply {
        self.state.own.extend(done.opened);
        for run_id in &done.closed {
            self.state.own.remove(run_id);
            self.state.abandoned.remove(run_id);
        }
        for (session_id, events) in &done.publish {
            self.shared.hub.publish(session_id, events);
        }
        for session_id in &done.deleted {
            self.shared.hub.close(session_id);
        }
        done.reply
    }

    /// Executes requests in one transaction. An error means that nothing of them is stored; a refusal of one request
    /// is its result.
    fn execute(&mut self, requests: &[Request]) -> Result<Vec<Result<Done, StoreError>>, StoreError> {
        let options = &self.state.options;
        let durable = requests.iter().any(|request| match request {
            Request::Wake | Request::Close => false,
            request if request.is_chunks() => options.durable_chunks,
            _ => options.durable_content,
        });
        if let Some(results) = self.transact(requests, durable)? {
            return Ok(results);
        }
        // Numbers above the old ceiling need a commit that reaches the disk, which is decided before a transaction.
        self.transact(requests, true)?
            .ok_or_else(|| StoreError::failed("a durable transaction was refused"))
    }

    /// Executes requests in one transaction; `None` if nothing is stored because the commit would have to be durable.
    #[allow(clippy::type_complexity, reason = "the result of `execute`, or none")]
    fn transact(
        &mut self,
        requests: &[Request],
        durable: bool,
    ) -> Result<Option<Vec<Result<Done, StoreError>>>, StoreError> {
        self.set_durable(durable)?;
        let begin = Instant::now();
        let transaction = checkpointer::begin(&self.connection, self.checkpointer.as_ref())?;
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            match self.state.execute(Tables::of(&transaction), request) {
                Err(error @ (StoreError::Full | StoreError::Failed { .. })) => return Err(error),
                Ok(done) if done.raised && !durable => return Ok(None),
                result => results.push(result),
            }
        }
        transaction.commit()?;
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.transaction.store(nanos, Ordering::Relaxed);
        Ok(Some(results))
    }

    /// Sets whether the next commits reach the disk before they return. Without it they survive the end of the
    /// process, and not that of the machine.
    fn set_durable(&mut self, durable: bool) -> Result<(), StoreError> {
        if self.is_durable != Some(durable) {
            self.is_durable = None;
            let level = if durable { "full" } else { "normal" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.is_durable = Some(durable);
        }
        Ok(())
    }
}

/// How often to look for runs that no process continues.
fn watch_interval(options: &SqliteOptions) -> Duration {
    options.lease / 10
}

#[cfg(test)]
mod tests {
    use holodeck_backend_api::{BackendEvent, StopReason};

    use super::*;
    use crate::{NewRun, RunRecorder};

    #[test]
    fn the_options_decide_which_commits_wait_for_the_disk() {
        for (content, chunks) in [(true, false), (true, true), (false, false), (false, true)] {
            let folder = tempfile::tempdir().unwrap();
            let options = SqliteOptions {
                durable_content: content,
                durable_chunks: chunks,
                ..SqliteOptions::default()
            };
            let shared = Shared::of(folder.path().join("events.db"));
            let (clock, ids) = (Arc::clone(&options.clock), Arc::clone(&options.ids));
            let mut writer = Writer::open(shared, options).unwrap();
            let mut waits = |request| {
                let results = writer.execute(&[request]).unwrap();
                for done in results {
                    writer.finish(done.unwrap());
                }
                writer.is_durable.unwrap()
            };
            let (mut run, first) = RunRecorder::open(NewRun::new("s", "go"), clock, ids);
            // Its ceiling has to reach the disk whatever else does.
            assert!(waits(Request::OpenRun(first)));
            let piece = BackendEvent::Text { text: "a".to_owned() };
            let whole = BackendEvent::TurnEnd {
                stop_reason: StopReason::EndTurn,
                message_id: None,
                model: None,
            };
            assert_eq!(waits(Request::Append(run.observe(&piece))), chunks);
            assert_eq!(waits(Request::Append(run.observe(&whole))), content);
            assert_eq!(waits(Request::Append(run.observe(&piece))), chunks);
        }
    }
}
