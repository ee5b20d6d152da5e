//! A store, and what creates events for it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use holodeck_backend_api::EventStream;
use holodeck_events::{
    Clock, Delivery, Draft, EventStore, Ids, MemoryStore, NewRun, Recording, RunRecorder, SqliteOptions,
    SqliteStore, StoreError, StoredEvent,
};
use holodeck_model::events::SessionStart;
use jiff::Timestamp;

use crate::{
    backend_events::{Emitted, answered, stop, text},
    session::sources,
};

/// A clock that only a test moves.
#[derive(Default)]
pub(crate) struct ManualClock {
    passed: AtomicU64,
    /// How far the time of day was set away from what passed, in milliseconds.
    changed: AtomicI64,
}

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Sets the time of day, as a person or a server of time does.
    pub(crate) fn change_time_of_day(&self, seconds: i64) {
        self.changed.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.passed.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.passed.load(Ordering::SeqCst)).unwrap();
        let changed = self.changed.load(Ordering::SeqCst);
        Timestamp::from_millisecond(1_795_000_000_000 + passed + changed).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::SeqCst))
    }
}

pub(crate) struct Subject {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<dyn Ids>,
    /// The file, or the URL of the database.
    pub(crate) path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Subject {
    pub(crate) fn memory() -> Self {
        let (clock, ids) = (ManualClock::new(), sources().1);
        Self {
            store: Arc::new(MemoryStore::with_sources(clock.clone(), ids.clone())),
            clock,
            ids,
            path: PathBuf::new(),
            _folder: None,
        }
    }

    pub(crate) async fn sqlite() -> Self {
        let (clock, ids) = (ManualClock::new(), sources().1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.db");
        let mut subject = Self {
            store: Arc::new(MemoryStore::new()),
            clock,
            ids,
            path,
            _folder: Some(folder),
        };
        subject.store = Arc::new(subject.open_file().await);
        subject
    }

    /// In tables that no other subject has.
    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres(server: &crate::postgres_server::PostgresServer, name: &str) -> Self {
        // The server cuts longer names.
        let schema: String = name.chars().take(50).collect();
        server.run(&format!("CREATE SCHEMA {schema}"));
        let (clock, ids) = (ManualClock::new(), sources().1);
        let mut subject = Self {
            store: Arc::new(MemoryStore::new()),
            clock,
            ids,
            path: format!("{}?options=-c%20search_path%3D{schema}", server.url()).into(),
            _folder: None,
        };
        subject.store = Arc::new(subject.open_database().await);
        subject
    }

    /// Another store in the same tables.
    #[cfg(feature = "postgres")]
    pub(crate) async fn open_database(&self) -> holodeck_events::PostgresStore {
        let mut options = holodeck_events::PostgresOptions::default();
        options.clock = self.clock.clone();
        options.ids = Arc::clone(&self.ids);
        options.watches = false;
        let url = self.path.to_str().unwrap();
        holodeck_events::PostgresStore::open(url, options).await.unwrap()
    }

    /// Another store in the same file.
    pub(crate) async fn open_file(&self) -> SqliteStore {
        SqliteStore::open(&self.path, self.options()).await.unwrap()
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        let mut options = SqliteOptions::default();
        options.clock = self.clock.clone();
        options.ids = Arc::clone(&self.ids);
        // The test decides when a store looks for runs that are lost.
        options.watches = false;
        options
    }

    /// A recorder of `run`, and its first event, which is not stored.
    pub(crate) fn draft(&self, run: NewRun) -> (RunRecorder, Draft) {
        RunRecorder::open(run, self.clock.clone(), Arc::clone(&self.ids))
    }

    /// Opens a run.
    pub(crate) async fn open(&self, run: NewRun) -> Result<RunRecorder, StoreError> {
        let (recorder, first) = self.draft(run);
        self.store.open_run(first).await?;
        Ok(recorder)
    }

    /// Stores a piece of text.
    pub(crate) async fn piece(
        &self,
        recorder: &mut RunRecorder,
        piece: &str,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.append(recorder.observe(&text(piece))).await
    }

    /// Ends the turn and the run.
    pub(crate) async fn end(&self, recorder: &mut RunRecorder) -> Result<Vec<StoredEvent>, StoreError> {
        let mut drafts = recorder.observe(&stop(holodeck_backend_api::StopReason::EndTurn, "msg"));
        let end = answered([]).pop().unwrap().unwrap();
        drafts.extend(recorder.observe(&end));
        self.store.append(drafts).await
    }

    /// Records a session's beginning.
    pub(crate) async fn start(&self, session_id: &str, owner: Option<&str>) -> Result<(), String> {
        self.start_with(session_id, owner, SessionStart::default()).await
    }

    pub(crate) async fn start_with(
        &self,
        session_id: &str,
        owner: Option<&str>,
        start: SessionStart,
    ) -> Result<(), String> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let recording = Recording::new(&*self.store, &clock, &self.ids);
        let started = recording.session(session_id, owner, start).await;
        started.map_err(|error| error.to_string())
    }

    /// Records a whole run; returns what was delivered.
    pub(crate) async fn record(&self, run: NewRun, emitted: Vec<Emitted>) -> Vec<StoredEvent> {
        self.record_stream(run, Box::pin(futures::stream::iter(emitted)))
            .await
    }

    /// Records the run of a backend that reacts to what is stored.
    pub(crate) async fn record_stream(&self, run: NewRun, stream: EventStream<'_>) -> Vec<StoredEvent> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let delivered = Mutex::new(Vec::new());
        let sink = |event: Delivery| match event {
            Delivery::Stored(event) => delivered.lock().unwrap().push(event),
            Delivery::Transient(event) => panic!("{event:?}"),
        };
        let recording = Recording::new(&*self.store, &clock, &self.ids).with_sink(&sink);
        recording.record(run, stream).await.unwrap();
        delivered.into_inner().unwrap()
    }

    /// All events of a session.
    pub(crate) async fn stored(&self, session_id: &str) -> Vec<StoredEvent> {
        self.store.read_after(session_id, None).await.unwrap()
    }
}

/// A run of `session_id`.
pub(crate) fn session_run(session_id: &str) -> NewRun {
    NewRun::new(session_id, "go")
}

/// Sequence numbers, in stored order.
pub(crate) fn numbers_of(events: &[StoredEvent]) -> Vec<u64> {
    let numbers = events.iter().map(|event| event.event().meta.sequence_number);
    numbers.flatten().collect()
}
