//! Records a turn in a store while it runs, and delivers each event only after it is stored.
//!
//! If an event cannot be stored, the run is stopped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use holodeck_backend_api::{BackendError, BackendEvent, EventStream, ExecutionResult};
use holodeck_model::events::{AgentEvent, EventBody, EventClass, PersistenceState, RunError, SessionStart};
use serde_json::{Map, Value};
use tokio::{
    sync::{Mutex, mpsc::UnboundedReceiver},
    time::Instant,
};
use uuid::Uuid;

use crate::{
    Clock, Draft, EventStore, Ids, NewRun, RunRecorder, StoreError, StoredEvent, StreamChecker, TimedStream,
    Trajectory, View,
    chunks::Chunks,
    draft::{draft, meta},
    terminal::code,
};

/// The store, sources and options with which runs are recorded.
#[derive(Clone, Copy)]
pub struct Recording<'a> {
    store: &'a dyn EventStore,
    clock: &'a Arc<dyn Clock>,
    ids: &'a Arc<dyn Ids>,
    sink: Option<&'a dyn EventSink>,
    limit: Option<Duration>,
    chunk_interval: Duration,
    violations: Option<&'a AtomicU64>,
    extra: Option<&'a (dyn Fn() -> Map<String, Value> + Sync)>,
    notes: Option<&'a Mutex<UnboundedReceiver<RunNote>>>,
}

/// A fact about a run that is no event of its agent. It is stored when it comes, as an event of a type of its own, which
/// readers that do not know it keep.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct RunNote {
    /// The type of the event.
    pub kind: &'static str,
    /// Its fields.
    pub fields: Map<String, Value>,
}

/// The next part of a run.
enum Next {
    Event(Result<BackendEvent, BackendError>),
    Note(RunNote),
}

/// The reason why a run continues.
enum Step {
    Written(Written),
    /// The collected pieces may be stored.
    Due,
    Next(Next),
}

/// Whether an event, also one of a nested agent, is a question that another one follows at once.
fn is_followed(event: &BackendEvent) -> bool {
    match event {
        BackendEvent::ApprovalAsked(ask) => ask.is_followed,
        BackendEvent::Nested { event, .. } => is_followed(event),
        _ => false,
    }
}

/// A write that is under way.
type Write<'a> = BoxFuture<'a, Written>;

/// A write that is over.
struct Written {
    /// The answers to approvals among its events.
    own: Vec<Uuid>,
    stored: Result<Vec<StoredEvent>, StoreError>,
}

/// Receives events once they are stored. It cannot change what is recorded, and must not block: a slow reader keeps a
/// bounded queue and reads the rest from the store.
pub trait EventSink: Send + Sync {
    /// Takes an event.
    fn deliver(&self, event: Delivery);
}

impl<F: Fn(Delivery) + Send + Sync> EventSink for F {
    fn deliver(&self, event: Delivery) {
        self(event);
    }
}

/// A delivery to a sink.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event that is stored. Their indices increase, but for the answer to an approval that another process stored: it
    /// is delivered when the run reports it.
    Stored(StoredEvent),
    /// The end of a run whose events cannot be stored.
    Transient(TransientEvent),
}

/// An event that is not stored; its `persistenceState` says so.
#[derive(Clone, Debug, PartialEq)]
pub struct TransientEvent(Box<AgentEvent>);

impl TransientEvent {
    /// The event.
    pub fn event(&self) -> &AgentEvent {
        &self.0
    }
}

/// A run that is over and stored.
#[derive(Debug)]
pub struct RecordedRun {
    /// Its id.
    pub run_id: String,
    /// Its result.
    pub result: ExecutionResult,
    /// The backend's error, if it failed.
    pub error: Option<BackendError>,
    /// The backend's own id of the conversation, if it has one.
    pub backend_session_id: Option<String>,
    /// The steps that are not part of the result.
    pub trajectory: Trajectory,
}

/// Why a run could not be recorded. The run is stopped: nothing may happen that is not stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It did not begin.
    #[error(transparent)]
    NotOpened(StoreError),
    /// It began, and then its events could not be stored.
    #[error("run `{run_id}` was stopped: {error}")]
    Lost {
        /// The run.
        run_id: String,
        /// Why.
        error: StoreError,
    },
}

impl<'a> Recording<'a> {
    /// Records into `store`.
    pub fn new(store: &'a dyn EventStore, clock: &'a Arc<dyn Clock>, ids: &'a Arc<dyn Ids>) -> Self {
        Self {
            store,
            clock,
            ids,
            sink: None,
            limit: None,
            chunk_interval: Duration::ZERO,
            violations: None,
            extra: None,
            notes: None,
        }
    }

    /// Delivers stored events to `sink`.
    pub fn with_sink(mut self, sink: &'a dyn EventSink) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Ends a run with a time-out when it takes longer.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Stores pieces of text at most once in `interval`, unless 4 KiB wait. The first is stored at once, and those that come
    /// while others are stored wait for them; neighbours become one.
    pub fn with_chunk_interval(mut self, interval: Duration) -> Self {
        self.chunk_interval = interval;
        self
    }

    /// Counts events that the store returned and that break the event contract. None do, unless the store is wrong.
    /// Without a counter, a debug build panics.
    pub fn with_violations(mut self, counter: &'a AtomicU64) -> Self {
        self.violations = Some(counter);
        self
    }

    /// Adds fields to the last event of each run; `extra` is called when it is about to be stored. Readers keep fields that
    /// they do not know.
    pub fn with_extra(mut self, extra: &'a (dyn Fn() -> Map<String, Value> + Sync)) -> Self {
        self.extra = Some(extra);
        self
    }

    /// Stores the notes that come while a run is recorded.
    pub fn with_notes(mut self, notes: &'a Mutex<UnboundedReceiver<RunNote>>) -> Self {
        self.notes = Some(notes);
        self
    }

    /// Records the beginning of a session of `owner`, unless it is recorded already.
    pub async fn session(
        &self,
        session_id: &str,
        owner: Option<&str>,
        start: SessionStart,
    ) -> Result<(), RecordError> {
        let mut meta = meta(&**self.clock, &**self.ids);
        meta.session_id = Some(session_id.to_owned());
        let first = draft(meta, EventBody::SessionStart(start));
        let stored = self.store.open_session(first, owner).await;
        if let Some(stored) = stored.map_err(RecordError::NotOpened)? {
            self.deliver(Delivery::Stored(stored));
        }
        Ok(())
    }

    /// Records a run from the person's message to its end. The stream is not polled before that message is stored, and
    /// not polled again before its events are, pieces of text excepted, which are collected while others are stored.
    pub async fn record(&self, run: NewRun, stream: EventStream<'_>) -> Result<RecordedRun, RecordError> {
        let (mut recorder, first) = RunRecorder::open(run, Arc::clone(self.clock), Arc::clone(self.ids));
        let first = self.store.open_run(first).await.map_err(RecordError::NotOpened)?;
        let open = OpenRun {
            store: self.store,
            session_id: recorder.session_id().to_owned(),
            run_id: recorder.run_id().to_owned(),
        };
        // Checking pieces of text costs memory, which only tests spend.
        let view = if cfg!(debug_assertions) {
            View::Live
        } else {
            View::Replay
        };
        let mut checker = StreamChecker::of_run(view);
        self.deliver_stored(first, false, &mut checker);
        let mut stream = TimedStream::new(stream, self.limit);
        let mut chunks = Chunks::new(self.chunk_interval);
        let mut write = None;
        let mut failure = None;
        while recorder.result().is_none() {
            match self.step(&mut write, &mut stream, &chunks).await {
                Step::Written(written) => {
                    write = None;
                    self.deliver_written(&recorder, written, &mut checker)?;
                }
                Step::Due => {}
                Step::Next(Next::Event(Ok(BackendEvent::End(result)))) => {
                    chunks.add(self.extended(recorder.complete(*result)));
                }
                Step::Next(Next::Event(Ok(event))) => {
                    chunks.add(recorder.observe(&event));
                    // The questions of one message are stored together: no client is shown only the first of them.
                    if is_followed(&event) {
                        continue;
                    }
                }
                Step::Next(Next::Event(Err(error))) => {
                    chunks.add(self.extended(recorder.fail(failure.insert(error))));
                }
                Step::Next(Next::Note(note)) => chunks.add(vec![self.note(&recorder, note)]),
            }
            if chunks.has_other() {
                if let Some(write) = write.take() {
                    self.deliver_written(&recorder, write.await, &mut checker)?;
                }
                let written = self.write(chunks.take()).await;
                self.deliver_written(&recorder, written, &mut checker)?;
            } else if write.is_none() && chunks.due_at().is_some_and(|at| at <= Instant::now()) {
                write = Some(self.write(chunks.take()));
            }
        }
        let run_id = open.close();
        let backend_session_id = recorder.backend_session_id().map(ToOwned::to_owned);
        let (result, trajectory) = recorder.into_result();
        Ok(RecordedRun {
            run_id,
            result,
            error: failure,
            backend_session_id,
            trajectory,
        })
    }

    /// Waits for the write that is under way, for the time of the next one, or for what comes next.
    async fn step(
        &self,
        write: &mut Option<Write<'_>>,
        stream: &mut TimedStream<'_>,
        chunks: &Chunks,
    ) -> Step {
        let is_writing = write.is_some();
        let written = async {
            match write {
                Some(write) => write.await,
                None => std::future::pending().await,
            }
        };
        let due = async {
            match chunks.due_at() {
                Some(at) if !is_writing => tokio::time::sleep_until(at).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            written = written => Step::Written(written),
            () = due => Step::Due,
            next = self.next(stream), if !chunks.is_full() => Step::Next(next),
        }
    }

    /// The next event or note; a note that is there comes first.
    async fn next(&self, stream: &mut TimedStream<'_>) -> Next {
        let noted = async {
            match self.notes {
                Some(notes) => notes.lock().await.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            Some(note) = noted => Next::Note(note),
            event = stream.next() => Next::Event(event),
        }
    }

    /// The event of a note.
    fn note(&self, recorder: &RunRecorder, note: RunNote) -> Draft {
        let mut meta = meta(&**self.clock, &**self.ids);
        meta.session_id = Some(recorder.session_id().to_owned());
        meta.run_id = Some(recorder.run_id().to_owned());
        let kind = note.kind.to_owned();
        let mut draft = draft(meta, EventBody::Unknown { kind });
        draft.event.extra = note.fields;
        // Also after the run is over: a run that was killed has nothing else.
        draft.class = EventClass::Durable;
        draft
    }

    /// The drafts with the extra fields of the last event.
    fn extended(&self, mut drafts: Vec<Draft>) -> Vec<Draft> {
        let last = drafts.last_mut().filter(|draft| draft.event.body.is_terminal());
        if let (Some(last), Some(extra)) = (last, self.extra) {
            last.event.extra.extend(extra());
        }
        drafts
    }

    /// Stores events. They are delivered afterwards.
    fn write(&self, drafts: Vec<Draft>) -> Write<'a> {
        let own = drafts
            .iter()
            .filter_map(|draft| answer_id(&draft.event))
            .collect();
        let store = self.store;
        Box::pin(async move {
            let stored = store.append(drafts).await;
            Written { own, stored }
        })
    }

    /// Delivers what was stored.
    fn deliver_written(
        &self,
        recorder: &RunRecorder,
        written: Written,
        checker: &mut StreamChecker,
    ) -> Result<(), RecordError> {
        match written.stored {
            Ok(stored) => {
                for event in stored {
                    let is_earlier = answer_id(event.event()).is_some_and(|id| !written.own.contains(&id));
                    self.deliver_stored(event, is_earlier, checker);
                }
                Ok(())
            }
            Err(error) => {
                self.deliver(Delivery::Transient(self.lost_event(recorder, &error)));
                Err(RecordError::Lost {
                    run_id: recorder.run_id().to_owned(),
                    error,
                })
            }
        }
    }

    /// Delivers a stored event, and checks it; `is_earlier` if it is an answer that another process stored.
    fn deliver_stored(&self, event: StoredEvent, is_earlier: bool, checker: &mut StreamChecker) {
        if cfg!(debug_assertions) || event.class() != EventClass::Journaled {
            let before = checker.violations();
            if is_earlier {
                checker.observe_earlier_answer(event.event());
            } else {
                checker.observe(event.event());
            }
            let new = checker.violations() - before;
            match self.violations {
                Some(counter) => {
                    counter.fetch_add(u64::try_from(new).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
                None => debug_assert!(new == 0, "{checker:?}"),
            }
        }
        self.deliver(Delivery::Stored(event));
    }

    fn deliver(&self, event: Delivery) {
        if let Some(sink) = self.sink {
            sink.deliver(event);
        }
    }

    /// The event that reports that a run's events cannot be stored. It has no number: it is never read again.
    fn lost_event(&self, recorder: &RunRecorder, error: &StoreError) -> TransientEvent {
        let mut meta = meta(&**self.clock, &**self.ids);
        meta.session_id = Some(recorder.session_id().to_owned());
        meta.run_id = Some(recorder.run_id().to_owned());
        meta.persistence_state = PersistenceState::Transient;
        let body = RunError {
            error: error.to_string(),
            code: code::PERSISTENCE.to_owned(),
            ..RunError::default()
        };
        TransientEvent(Box::new(AgentEvent::new(meta, EventBody::Error(body))))
    }
}

/// The id of an event that answers an approval.
fn answer_id(event: &AgentEvent) -> Option<Uuid> {
    matches!(event.body, EventBody::ApprovalResolved(_)).then_some(event.meta.event_id)
}

/// Abandons a run that is dropped before its end is stored: its session would stay locked.
struct OpenRun<'a> {
    store: &'a dyn EventStore,
    session_id: String,
    run_id: String,
}

impl OpenRun<'_> {
    /// The run is over; returns its id.
    fn close(mut self) -> String {
        std::mem::take(&mut self.run_id)
    }
}

impl Drop for OpenRun<'_> {
    fn drop(&mut self) {
        if !self.run_id.is_empty() {
            self.store.abandon(&self.session_id, &self.run_id);
        }
    }
}
