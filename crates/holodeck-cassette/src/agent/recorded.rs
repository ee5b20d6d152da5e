use std::{sync::Arc, time::Duration};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, Capabilities, EventStream, ExecutionResult,
    ModelRequest, Outcome, SessionControl, Spending, TurnRequest,
};
use tokio::time::Instant;

use super::{AgentSeen, Said, question};
use crate::{
    Tape,
    entry::Response,
    recorder::redacted,
    turn_events::{self, outcome_text},
};

/// Stands before an agent that is asked turn by turn, and writes down every turn that it ended. One that broke off, or
/// was stopped, is not written down.
pub struct RecordedAgent {
    agent: Arc<dyn AgentBackend>,
    seen: Arc<AgentSeen>,
    tape: Arc<Tape>,
}

impl RecordedAgent {
    /// Records on `tape` what `agent` answers, whose model sees `seen`.
    pub fn new(agent: Arc<dyn AgentBackend>, tape: Arc<Tape>, seen: AgentSeen) -> Self {
        Self {
            agent,
            seen: Arc::new(seen),
            tape,
        }
    }
}

#[async_trait]
impl AgentBackend for RecordedAgent {
    fn capabilities(&self) -> Capabilities {
        self.agent.capabilities()
    }

    async fn initialize(&self) -> Result<(), BackendError> {
        self.agent.initialize().await
    }

    fn start(&self, mut request: TurnRequest) -> EventStream<'_> {
        let said = Said::of(&request.context);
        let notes = Notes::new(self.seen.request(&request, &said), &mut request);
        noted(self.agent.start(request), notes, &self.tape, |_, _| {})
    }

    async fn create_session(&self) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(RecordedSession {
            session: self.agent.create_session().await?,
            seen: Arc::clone(&self.seen),
            tape: Arc::clone(&self.tape),
            said: Said::default(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.agent.teardown().await
    }
}

struct RecordedSession {
    session: Box<dyn AgentSession>,
    seen: Arc<AgentSeen>,
    tape: Arc<Tape>,
    said: Said,
}

#[async_trait]
impl AgentSession for RecordedSession {
    fn turn(&mut self, mut request: TurnRequest) -> EventStream<'_> {
        let notes = Notes::new(self.seen.request(&request, &self.said), &mut request);
        let question = question(&request);
        let said = &mut self.said;
        noted(
            self.session.turn(request),
            notes,
            &self.tape,
            move |events, outcome| said.add(question, events, outcome),
        )
    }

    fn control(&self) -> SessionControl {
        self.session.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.session.close().await
    }
}

/// The events of a turn, which is written down when it ends; `over` hears what was.
fn noted<'a>(
    mut events: EventStream<'a>,
    mut notes: Notes,
    tape: &'a Tape,
    over: impl FnOnce(&[BackendEvent], &Outcome) + Send + 'a,
) -> EventStream<'a> {
    Box::pin(stream! {
        let mut over = Some(over);
        while let Some(event) = events.next().await {
            match &event {
                Ok(BackendEvent::End(result)) => {
                    let recorded = notes.keep(result, tape);
                    if let Some(over) = over.take() {
                        over(&recorded, &result.outcome);
                    }
                }
                Ok(event) => notes.hear(event),
                Err(_) => {}
            }
            yield event;
        }
    })
}

/// What is noted of a turn while it runs.
struct Notes {
    request: ModelRequest,
    events: Vec<BackendEvent>,
    /// Hears what tools ask models in this turn.
    spending: Spending,
    before: Duration,
    running: Option<Instant>,
}

impl Notes {
    fn new(request: ModelRequest, turn: &mut TurnRequest) -> Self {
        turn.spending = turn.spending.part();
        Self {
            request,
            events: Vec::new(),
            spending: turn.spending.clone(),
            before: Duration::ZERO,
            running: Some(Instant::now()),
        }
    }

    fn hear(&mut self, event: &BackendEvent) {
        match event {
            // Starting a process is no part of the time the turn took.
            BackendEvent::Paused => {
                self.before = self.took();
                self.running = None;
            }
            BackendEvent::Resumed => self.running = Some(Instant::now()),
            event => turn_events::append(&mut self.events, event),
        }
    }

    fn took(&self) -> Duration {
        self.before + self.running.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Writes the turn down and gives the events as they were written.
    fn keep(&mut self, result: &ExecutionResult, tape: &Tape) -> Vec<BackendEvent> {
        let response = Response {
            events: std::mem::take(&mut self.events),
            spent: self.spending.take(),
            stop_reason: outcome_text(&result.outcome),
            model: result.model.clone(),
            ..Response::default()
        };
        let latency = u64::try_from(self.took().as_millis()).unwrap_or(u64::MAX);
        let request = redacted(&self.request, tape.redactor());
        tape.keep(&request, response, latency).events
    }
}
