use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, EventStream, ExecutionResult};
use holodeck_model::events::{AgentEvent, EventBody, PersistenceState, RunError, SessionStart};

use crate::{
    Clock, Draft, EventStore, Ids, Ignored, NewRun, RunRecorder, StoreError, StoredEvent, StreamChecker,
    View,
    book::{draft, meta},
    terminal::code,
};

/// What runs are recorded with.
#[derive(Clone, Copy)]
pub struct Recording<'a> {
    store: &'a dyn EventStore,
    clock: &'a Arc<dyn Clock>,
    ids: &'a Arc<dyn Ids>,
    sink: Option<&'a dyn EventSink>,
}

/// Is shown events once they are kept. It can't change what is recorded, and must not block: who is slow keeps a
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

/// What a sink is shown.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event that is kept.
    Stored(StoredEvent),
    /// The last thing to say of a run whose events can't be kept.
    Transient(TransientEvent),
}

/// An event that is in no store, and says so.
#[derive(Clone, Debug, PartialEq)]
pub struct TransientEvent(Box<AgentEvent>);

impl TransientEvent {
    /// The event.
    pub fn event(&self) -> &AgentEvent {
        &self.0
    }
}

/// A run that is over and kept.
#[derive(Debug)]
pub struct RecordedRun {
    /// Its id.
    pub run_id: String,
    /// What it came to.
    pub result: ExecutionResult,
    /// What the backend failed with, if it did.
    pub error: Option<BackendError>,
    /// The other side's own id of the conversation, when it told one.
    pub backend_session_id: Option<String>,
    /// What the backend told and the record leaves out.
    pub ignored: Vec<Ignored>,
}

/// Why a run could not be recorded. It was stopped: what is not kept must not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It did not begin.
    #[error(transparent)]
    NotOpened(StoreError),
    /// It began, and then its events could not be kept.
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
        }
    }

    /// Shows `sink` what is kept.
    pub fn with_sink(mut self, sink: &'a dyn EventSink) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Records that a session begins, unless it did already.
    pub async fn session(&self, session_id: &str, start: SessionStart) -> Result<(), RecordError> {
        let mut meta = meta(&**self.clock, &**self.ids);
        meta.session_id = Some(session_id.to_owned());
        let first = draft(meta, EventBody::SessionStart(start));
        let stored = self.store.open_session(first).await;
        if let Some(stored) = stored.map_err(RecordError::NotOpened)? {
            self.deliver(Delivery::Stored(stored));
        }
        Ok(())
    }

    /// Records a run from what the person said to its end. The stream is not touched before the person's message is
    /// kept, and no further than what it told can be kept.
    pub async fn record(&self, run: NewRun, mut stream: EventStream<'_>) -> Result<RecordedRun, RecordError> {
        let (mut recorder, first) = RunRecorder::open(run, Arc::clone(self.clock), Arc::clone(self.ids));
        let first = self.store.open_run(first).await.map_err(RecordError::NotOpened)?;
        let mut checker = StreamChecker::of_run(View::Live);
        self.show(first, &mut checker);
        let mut failure = None;
        while recorder.result().is_none() {
            let told = stream
                .next()
                .await
                .unwrap_or_else(|| Err(BackendError::no_result()));
            let drafts = match told {
                Ok(event) => recorder.observe(&event),
                Err(error) => recorder.fail(failure.insert(error)),
            };
            self.keep(&recorder, drafts, &mut checker).await?;
        }
        Ok(RecordedRun {
            run_id: recorder.run_id().to_owned(),
            result: recorder.result().cloned().unwrap_or_default(),
            error: failure,
            backend_session_id: recorder.backend_session_id().map(ToOwned::to_owned),
            ignored: recorder.ignored().to_vec(),
        })
    }

    /// Keeps, then shows.
    async fn keep(
        &self,
        recorder: &RunRecorder,
        drafts: Vec<Draft>,
        checker: &mut StreamChecker,
    ) -> Result<(), RecordError> {
        if drafts.is_empty() {
            return Ok(());
        }
        match self.store.append(drafts).await {
            Ok(stored) => {
                for event in stored {
                    self.show(event, checker);
                }
                Ok(())
            }
            Err(error) => {
                self.deliver(Delivery::Transient(self.lost(recorder, &error)));
                Err(RecordError::Lost {
                    run_id: recorder.run_id().to_owned(),
                    error,
                })
            }
        }
    }

    /// Shows what is kept. In a debug build the recorder's own work is checked too.
    fn show(&self, event: StoredEvent, checker: &mut StreamChecker) {
        if cfg!(debug_assertions) {
            checker.observe(event.event());
            debug_assert!(checker.is_clean(), "{checker:?}");
        }
        self.deliver(Delivery::Stored(event));
    }

    fn deliver(&self, event: Delivery) {
        if let Some(sink) = self.sink {
            sink.deliver(event);
        }
    }

    /// Says that a run's events can't be kept, without a number: nobody will see it again.
    fn lost(&self, recorder: &RunRecorder, error: &StoreError) -> TransientEvent {
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
