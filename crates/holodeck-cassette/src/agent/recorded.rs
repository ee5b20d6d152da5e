//! Records the turns of an agent that calls its model itself. Only completed turns are recorded.

use std::{sync::Arc, time::Duration};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, ExecutionResult, ModelRequest,
    Opening, Outcome, SessionControl, SessionHandle, Spending, TurnRequest,
};
use tokio::time::Instant;

use super::{AgentContext, ConversationKey, user_message};
use crate::{
    Tape,
    entry::Response,
    recorder::redact_request,
    turn_events::{self, outcome_text},
};

/// Wraps an agent and records each turn that it completes. Interrupted or stopped turns are not recorded.
pub struct RecordedAgent {
    agent: Arc<dyn AgentBackend>,
    context: Arc<AgentContext>,
    tape: Arc<Tape>,
}

impl RecordedAgent {
    /// Records on `tape` what `agent` answers, whose model sees `context`.
    pub fn new(agent: Arc<dyn AgentBackend>, tape: Arc<Tape>, context: AgentContext) -> Self {
        Self {
            agent,
            context: Arc::new(context),
            tape,
        }
    }
}

#[async_trait]
impl AgentBackend for RecordedAgent {
    async fn initialize(&self) -> Result<(), BackendError> {
        self.agent.initialize().await
    }

    fn start(&self, mut request: TurnRequest) -> EventStream<'_> {
        let conversation = ConversationKey::default();
        let recorder = TurnRecorder::new(self.context.request(&request, &conversation), &mut request);
        record_turn(self.agent.start(request), recorder, &self.tape, |_, _| {})
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let conversation = ConversationKey::from_history(&opening.history);
        Ok(Box::new(RecordedSession {
            session: self.agent.open_session(opening).await?,
            context: Arc::clone(&self.context),
            tape: Arc::clone(&self.tape),
            conversation,
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.agent.teardown().await
    }
}

struct RecordedSession {
    session: Box<dyn AgentSession>,
    context: Arc<AgentContext>,
    tape: Arc<Tape>,
    conversation: ConversationKey,
}

#[async_trait]
impl AgentSession for RecordedSession {
    fn turn(&mut self, mut request: TurnRequest) -> EventStream<'_> {
        let recorder = TurnRecorder::new(self.context.request(&request, &self.conversation), &mut request);
        let message = user_message(&request);
        let conversation = &mut self.conversation;
        record_turn(
            self.session.turn(request),
            recorder,
            &self.tape,
            move |events, outcome| conversation.add(message, events, outcome),
        )
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

/// Forwards the events of a turn and records the turn when it ends; `on_end` receives the recorded events.
fn record_turn<'a>(
    mut events: EventStream<'a>,
    mut recorder: TurnRecorder,
    tape: &'a Tape,
    on_end: impl FnOnce(&[BackendEvent], &Outcome) + Send + 'a,
) -> EventStream<'a> {
    Box::pin(stream! {
        let mut on_end = Some(on_end);
        while let Some(event) = events.next().await {
            match &event {
                Ok(BackendEvent::End(result)) => {
                    let recorded = recorder.record(result, tape);
                    if let Some(on_end) = on_end.take() {
                        on_end(&recorded, &result.outcome);
                    }
                }
                Ok(event) => recorder.observe(event),
                Err(_) => {}
            }
            yield event;
        }
    })
}

/// Collects the events, token usage and duration of a running turn.
struct TurnRecorder {
    request: ModelRequest,
    events: Vec<BackendEvent>,
    /// Collects the usage of model calls that tools make in this turn.
    spending: Spending,
    /// The time before the last pause.
    earlier: Duration,
    running_since: Option<Instant>,
}

impl TurnRecorder {
    fn new(request: ModelRequest, turn: &mut TurnRequest) -> Self {
        turn.spending = turn.spending.part();
        Self {
            request,
            events: Vec::new(),
            spending: turn.spending.clone(),
            earlier: Duration::ZERO,
            running_since: Some(Instant::now()),
        }
    }

    fn observe(&mut self, event: &BackendEvent) {
        match event {
            // Starting a process is not part of the turn's latency.
            BackendEvent::Paused => {
                self.earlier = self.elapsed();
                self.running_since = None;
            }
            BackendEvent::Resumed => self.running_since = Some(Instant::now()),
            event => turn_events::append(&mut self.events, event),
        }
    }

    fn elapsed(&self) -> Duration {
        let running = self.running_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.earlier + running
    }

    /// Records the turn and returns its events as recorded.
    fn record(&mut self, result: &ExecutionResult, tape: &Tape) -> Vec<BackendEvent> {
        let response = Response {
            events: std::mem::take(&mut self.events),
            spent: self.spending.take(),
            stop_reason: outcome_text(&result.outcome),
            model: result.model.clone(),
            ..Response::default()
        };
        let latency = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        let request = redact_request(&self.request, tape.redactor());
        tape.record(&request, response, latency).events
    }
}
