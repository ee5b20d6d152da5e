//! Records every turn of the conformance suite and checks the invariants of events.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_stream::stream;
use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _};
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, EventStream, Opening, SessionControl, SessionHandle,
    TokenUsage, ToolHost, TurnRequest,
};

use super::{
    Check, ModelMove, Outcome, Prepared, Scenario, Subject,
    observed::{ask, equipped},
    same,
};
use crate::RecordedTurn;

pub(super) const CHECKS: &[(&str, Check)] = &[(
    "a conversation is recorded as the same types of events everywhere",
    |s| alike(s).boxed(),
)];

/// The events that every backend must report for this conversation, in this order.
const TYPES: [&str; 11] = [
    "user_message_confirmed",
    "tool_use",
    "tool_result",
    "tool_use",
    "tool_result",
    "thinking_chunk",
    "thinking_complete",
    "message_chunk",
    "thinking",
    "message",
    "complete",
];

async fn alike(subject: &dyn Subject) -> Outcome {
    let moves = [
        ModelMove::call("echo"),
        ModelMove::Call(vec![super::scenario::call("c2", "fails", "x")]),
        ModelMove::Say {
            reasoning: Some("hm"),
            pieces: vec!["30 ", "days"],
            usage: Some(TokenUsage::new(7, 3)),
        },
    ];
    let (prepared, _) = equipped(subject, Scenario::of(moves)).await;
    let observed = ask(&*prepared.backend, "how long?").await;
    let items = observed.events.into_iter().map(Ok).chain(observed.error.map(Err));
    let recorded = RecordedTurn::of(items).await;
    same("the types of the events", recorded.kinds(), TYPES)
}

type Problems = Arc<Mutex<Vec<String>>>;

/// A subject that records its turns.
pub(super) struct Recorded<'a> {
    subject: &'a dyn Subject,
    problems: Problems,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(subject: &'a dyn Subject) -> Self {
        Self {
            subject,
            problems: Problems::default(),
        }
    }

    /// The problems of the records.
    pub(super) fn problems(&self) -> Option<String> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        (!problems.is_empty()).then(|| format!("its record: {}", problems.join("; ")))
    }
}

#[async_trait]
impl Subject for Recorded<'_> {
    async fn backend(&self, scenario: Scenario, tools: Arc<dyn ToolHost>) -> Prepared {
        let calls = scenario.moves.iter().filter_map(|one| match one {
            ModelMove::Call(calls) => Some(calls),
            _ => None,
        });
        let tool_ids: BTreeSet<_> = calls.flatten().map(|call| call.call_id.clone()).collect();
        let recording = Recording {
            tool_ids: (!tool_ids.is_empty()).then_some(tool_ids),
            problems: Arc::clone(&self.problems),
        };
        let prepared = self.subject.backend(scenario, tools).await;
        Prepared {
            backend: Arc::new(RecordedBackend {
                backend: prepared.backend,
                recording,
            }),
            keep: prepared.keep,
        }
    }
}

#[derive(Clone)]
struct Recording {
    tool_ids: Option<BTreeSet<String>>,
    problems: Problems,
}

impl Recording {
    /// Passes a stream through and records it. One that is dropped early leaves an incomplete record.
    fn tap<'a>(&self, message: String, mut stream: EventStream<'a>) -> EventStream<'a> {
        let recording = self.clone();
        Box::pin(stream! {
            let turn = RecordedTurn::begin(&message).await;
            let mut tap = Tap { turn, recording };
            while let Some(item) = stream.next().await {
                tap.turn.add(&item).await;
                yield item;
            }
            tap.turn.over().await;
        })
    }
}

struct Tap {
    turn: RecordedTurn,
    recording: Recording,
}

impl Drop for Tap {
    fn drop(&mut self) {
        let found = self.turn.problems(self.recording.tool_ids.as_ref());
        let problems = self.recording.problems.lock();
        problems.unwrap_or_else(PoisonError::into_inner).extend(found);
    }
}

struct RecordedBackend {
    backend: Arc<dyn AgentBackend>,
    recording: Recording,
}

#[async_trait]
impl AgentBackend for RecordedBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        self.backend.initialize().await
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let message = request.message.clone();
        self.recording.tap(message, self.backend.start(request))
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let session = self.backend.open_session(opening).await?;
        let recording = self.recording.clone();
        Ok(Box::new(RecordedSession { session, recording }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.backend.teardown().await
    }
}

struct RecordedSession {
    session: Box<dyn AgentSession>,
    recording: Recording,
}

#[async_trait]
impl AgentSession for RecordedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let message = request.message.clone();
        self.recording.tap(message, self.session.turn(request))
    }

    fn control(&self) -> SessionControl {
        self.session.control()
    }

    fn handle(&self) -> Option<SessionHandle> {
        self.session.handle()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.session.close().await
    }
}
