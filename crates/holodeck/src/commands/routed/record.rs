//! Stores an execution as a run: its turns as events, and in the last event everything about how it was executed.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use futures::StreamExt as _;
use holodeck_backend_api::{
    Approval, BackendEvent, EventStream, ExecutionResult, Outcome, StopReason, ToolCall, ToolResult,
};
use holodeck_chat::{LOCAL_USER, mask_events};
use holodeck_events::{Clock, EventStore, Ids, NewRun, RandomIds, Recording, RunNote, SystemClock};
use holodeck_model::{JsonMap, Provider, Redactor, ResolvedAgent, events::SessionStart};
use holodeck_orchestrator::{LoopRules, LoopStep, TurnObserver};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The field of a run's last event that has everything about its execution.
pub const EXECUTION_FIELD: &str = "execution";

/// The type of the events with the steps of a loop: its `rules`, and the `step`.
pub const LOOP_STEP: &str = "loop_step";

/// The events and notes of a run on their way to the store.
pub(super) struct Recorded {
    events: UnboundedReceiver<BackendEvent>,
    notes: tokio::sync::Mutex<UnboundedReceiver<RunNote>>,
}

/// Passes the events of all turns to the recording, as those of one run.
pub(super) struct Recorder {
    events: UnboundedSender<BackendEvent>,
    notes: UnboundedSender<RunNote>,
    turn: AtomicU32,
    /// Whether a message is not complete.
    is_open: AtomicBool,
    details: Mutex<JsonMap>,
}

impl Recorder {
    pub(super) fn new() -> (Arc<Self>, Recorded) {
        let (events, receiver) = unbounded_channel();
        let (notes, noted) = unbounded_channel();
        let recorder = Self {
            events,
            notes,
            turn: AtomicU32::new(0),
            is_open: AtomicBool::new(false),
            details: Mutex::default(),
        };
        let recorded = Recorded {
            events: receiver,
            notes: tokio::sync::Mutex::new(noted),
        };
        (Arc::new(recorder), recorded)
    }

    /// Stores a step of the loop at once, so that a run that is killed leaves it behind.
    pub(super) fn step(&self, rules: &LoopRules, step: &LoopStep, redactor: &Redactor) {
        let mut fields = json!({"rules": rules, "step": step});
        redactor.mask_value(&mut fields);
        if let Value::Object(fields) = fields {
            // Without a receiver the recording has failed, which is reported there.
            let _ = self.notes.send(RunNote {
                kind: LOOP_STEP,
                fields,
            });
        }
    }

    /// Ends the run. An answer that no turn wrote becomes its last message.
    pub(super) fn end(&self, answer: Option<&str>, was_streamed: bool, error: Option<&str>, details: Value) {
        self.close_message(StopReason::aborted());
        if let Value::Object(fields) = details {
            *self.details.lock().unwrap_or_else(PoisonError::into_inner) = fields;
        }
        if let Some(text) = answer.filter(|text| !was_streamed && !text.is_empty()) {
            self.send(BackendEvent::Text {
                text: text.to_owned(),
            });
            self.close_message(StopReason::EndTurn);
        }
        self.send(BackendEvent::End(Box::new(ExecutionResult {
            response: answer.unwrap_or_default().to_owned(),
            num_turns: 1,
            outcome: match error {
                Some(reason) => Outcome::Failed {
                    reason: reason.to_owned(),
                },
                None => Outcome::Completed,
            },
            ..ExecutionResult::default()
        })));
    }

    fn close_message(&self, stop_reason: StopReason) {
        if self.is_open.swap(false, Ordering::Relaxed) {
            self.send(BackendEvent::TurnEnd {
                stop_reason,
                message_id: None,
                model: None,
            });
        }
    }

    fn send(&self, event: BackendEvent) {
        if matches!(event, BackendEvent::Text { .. }) {
            self.is_open.store(true, Ordering::Relaxed);
        }
        // Without a receiver the recording has failed, which is reported there.
        let _ = self.events.send(event);
    }

    fn extra(&self) -> JsonMap {
        self.details
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl TurnObserver for Recorder {
    fn on_turn(&self) {
        self.close_message(StopReason::aborted());
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    fn on_event(&self, event: &BackendEvent) {
        match event {
            BackendEvent::End(_) | BackendEvent::StructuredOutput(_) => return,
            BackendEvent::Thinking { .. } | BackendEvent::Text { .. } | BackendEvent::ToolCall(_) => {
                self.is_open.store(true, Ordering::Relaxed);
            }
            BackendEvent::TurnEnd { .. } => self.is_open.store(false, Ordering::Relaxed),
            _ => {}
        }
        let turn = self.turn.load(Ordering::Relaxed);
        let _ = self.events.send(in_turn(event.clone(), turn));
    }
}

/// The event with ids of calls that no other turn of the run has.
fn in_turn(event: BackendEvent, turn: u32) -> BackendEvent {
    if turn < 2 {
        return event;
    }
    let id = |id: &str| format!("{turn}:{id}");
    match event {
        BackendEvent::ToolCall(call) => BackendEvent::ToolCall(ToolCall {
            call_id: id(&call.call_id),
            ..call
        }),
        BackendEvent::ToolResult(result) => BackendEvent::ToolResult(ToolResult {
            call_id: id(&result.call_id),
            ..result
        }),
        BackendEvent::ApprovalDecided(approval) => BackendEvent::ApprovalDecided(Approval {
            call_id: id(&approval.call_id),
            ..approval
        }),
        BackendEvent::Nested {
            parent_call_id,
            event,
        } => BackendEvent::Nested {
            parent_call_id: id(&parent_call_id),
            event: Box::new(in_turn(*event, turn)),
        },
        other => other,
    }
}

/// The stored form of a run.
pub(super) struct StoredRun<'a> {
    pub(super) agent: &'a ResolvedAgent,
    pub(super) session_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) task: &'a str,
    pub(super) redactor: &'a Arc<Redactor>,
}

/// Stores the events until the run ends. Returns why it could not be stored.
pub(super) async fn record(
    store: &dyn EventStore,
    run: &StoredRun<'_>,
    recorder: &Recorder,
    recorded: Recorded,
) -> Option<String> {
    let Recorded { events, notes } = recorded;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let extra = || recorder.extra();
    let recording = Recording::new(store, &clock, &ids)
        .with_extra(&extra)
        .with_notes(&notes);
    let config = &run.agent.config;
    let start = SessionStart {
        agent_name: Some(config.name.clone()),
        model: Some(config.model.name.clone()),
        backend: Some(
            if config.model.provider == Provider::Anthropic {
                "claude"
            } else {
                "openai"
            }
            .to_owned(),
        ),
        ..SessionStart::default()
    };
    let session = recording.session(run.session_id, Some(LOCAL_USER), start).await;
    if let Err(error) = session {
        return Some(error.to_string());
    }
    let mut new = NewRun::new(run.session_id, run.redactor.text(run.task));
    new.run_id = Some(run.run_id.to_owned());
    new.user_id = Some(LOCAL_USER.to_owned());
    let events = futures::stream::unfold(events, |mut events| async move {
        let event = events.recv().await?;
        Some((Ok(event), events))
    });
    let events: EventStream<'_> = mask_events(events.boxed(), run.redactor);
    let recorded = recording.record(new, events).await;
    recorded.err().map(|error| error.to_string())
}
