//! A session recorded with counted ids and a clock that steps.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use holodeck_events::{
    Clock, Delivery, EventStore as _, Ids, MemoryStore, NewRun, RecordError, RecordedRun, Recording,
    StoredEvent, StreamChecker, View, Violation,
};
use holodeck_model::events::{AgentEvent, EventBody, EventClass};
use jiff::Timestamp;
use uuid::{Builder, Uuid};

use crate::backend_events::Emitted;

/// Each look at it takes a millisecond.
pub(crate) struct SteppingClock(AtomicU64);

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        let step = i64::try_from(self.0.fetch_add(1, Ordering::SeqCst)).unwrap();
        Timestamp::from_millisecond(1_795_000_000_000 + step).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next(&self) -> Uuid {
        let number = u128::from(self.0.fetch_add(1, Ordering::SeqCst));
        Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
    }
}

pub(crate) fn sources() -> (Arc<dyn Clock>, Arc<dyn Ids>) {
    (
        Arc::new(SteppingClock(AtomicU64::new(0))),
        Arc::new(CountedIds(AtomicU64::new(0))),
    )
}

/// Nothing here waits.
pub(crate) fn block_on<F: Future>(work: F) -> F::Output {
    work.now_or_never().expect("it waits")
}

pub(crate) struct TestSession {
    pub(crate) store: MemoryStore,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    pub(crate) runs: Vec<RecordedRun>,
    pub(crate) delivered: Mutex<Vec<StoredEvent>>,
}

impl TestSession {
    pub(crate) fn new() -> Self {
        let (clock, ids) = sources();
        Self {
            store: MemoryStore::new(),
            clock,
            ids,
            runs: Vec::new(),
            delivered: Mutex::default(),
        }
    }

    pub(crate) fn recording(&self) -> Recording<'_> {
        Recording::new(&self.store, &self.clock, &self.ids)
    }

    pub(crate) fn run(&mut self, message: &str, emitted: Vec<Emitted>) -> &RecordedRun {
        let run = self.try_run(message, emitted).unwrap();
        self.runs.push(run);
        self.runs.last().unwrap()
    }

    pub(crate) fn try_run(&self, message: &str, emitted: Vec<Emitted>) -> Result<RecordedRun, RecordError> {
        let sink = |event: Delivery| {
            if let Delivery::Stored(event) = event {
                self.delivered.lock().unwrap().push(event);
            }
        };
        let recording = self.recording().with_sink(&sink);
        let stream = Box::pin(futures::stream::iter(emitted));
        block_on(recording.record(NewRun::new("s", message), stream))
    }

    pub(crate) fn stored(&self) -> Vec<StoredEvent> {
        block_on(self.store.read_after("s", None)).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<AgentEvent> {
        self.stored()
            .iter()
            .map(|stored| stored.event().clone())
            .collect()
    }

    /// Without chunks.
    pub(crate) fn pruned(&self) -> Vec<AgentEvent> {
        let stored = self.stored();
        let pruned = stored
            .iter()
            .filter(|event| event.class() != EventClass::Journaled);
        pruned.map(|event| event.event().clone()).collect()
    }

    pub(crate) fn shape(&self) -> Vec<String> {
        self.events().iter().map(shape).collect()
    }
}

/// One run, checked.
pub(crate) fn record_run(emitted: Vec<Emitted>) -> TestSession {
    let mut session = TestSession::new();
    session.run("go", emitted);
    assert_eq!(check(View::Live, &session.events()), []);
    assert_eq!(check(View::Replay, &session.pruned()), []);
    session
}

pub(crate) fn check(view: View, events: &[AgentEvent]) -> Vec<Violation> {
    checked(view, events).finish()
}

pub(crate) fn checked(view: View, events: &[AgentEvent]) -> StreamChecker {
    let mut checker = StreamChecker::new(view);
    for event in events {
        checker.observe(event);
    }
    checker
}

/// An event in a line: its sequence number, its type and what matters of it.
pub(crate) fn shape(event: &AgentEvent) -> String {
    let number = event
        .meta
        .sequence_number
        .map_or("-".to_owned(), |number| number.to_string());
    let what = match &event.body {
        EventBody::UserMessageConfirmed(message) => message.content.clone(),
        EventBody::ThinkingChunk(chunk)
        | EventBody::ThinkingComplete(chunk)
        | EventBody::MessageChunk(chunk) => {
            format!("{} {:?}", chunk.block_index, chunk.content)
        }
        EventBody::Thinking(thinking) => {
            let signature = thinking
                .signature
                .as_deref()
                .map_or(String::new(), |own| format!(" signed {own}"));
            let blocks = match thinking.blocks.len() {
                0 => String::new(),
                blocks => format!(" in {blocks} blocks"),
            };
            let redacted = if thinking.redacted { " redacted" } else { "" };
            format!("{:?}{signature}{blocks}{redacted}", thinking.content)
        }
        EventBody::Message(message) => {
            let cut = message
                .interruption
                .as_ref()
                .map_or(String::new(), |why| format!(" cut by {why}"));
            let provider = message
                .provider_stop_reason
                .as_deref()
                .map_or(String::new(), |word| format!(" provider {word}"));
            format!("{} {:?}{provider}{cut}", message.stop_reason, message.content)
        }
        EventBody::ToolUse(call) => format!("{} {}", call.tool_use_id, call.tool_name),
        EventBody::ToolResult(result) => {
            let ok = if result.success { "ok" } else { "failed" };
            let cut = if result.truncated { " truncated" } else { "" };
            format!("{} {ok} {}{cut}", result.tool_use_id, result.result)
        }
        EventBody::ApprovalRequested(ask) => format!(
            "{} {} {}",
            ask.tool_use_id.as_deref().unwrap_or("?"),
            ask.tool_name,
            ask.priority.as_ref().unwrap()
        ),
        EventBody::ApprovalResolved(answer) => {
            format!("{} {}", answer.approved, answer.decision.as_ref().unwrap())
        }
        EventBody::Complete(end) => {
            let stop = end
                .stop_reason
                .as_ref()
                .map_or(String::new(), |stop| format!(" {stop}"));
            format!("{}{stop}", end.reason)
        }
        EventBody::Error(error) => format!("{}: {}", error.code, error.error),
        EventBody::SessionStart(_) | EventBody::Unknown { .. } => String::new(),
        _ => String::from("?"),
    };
    let agent = event
        .meta
        .parent_tool_use_id
        .as_deref()
        .map_or(String::new(), |id| format!(" under {id}"));
    format!("{number} {} {what}{agent}", event.body.kind())
        .trim_end()
        .to_owned()
}
