//! The traces of an execution: the events of its turns as those of one answer, its result, and in a store a run
//! whose last event has everything about how it was executed.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use futures::StreamExt as _;
use holodeck_backend_api::{
    BackendError, BackendEvent, EventStream, ExecutionResult, Outcome, ResultFold, StopReason,
};
use holodeck_chat::{LOCAL_USER, mask_events};
use holodeck_events::{Clock, EventStore, Ids, NewRun, RandomIds, Recording, RunNote, SystemClock};
use holodeck_model::{ExecutorRecord, JsonMap, Redactor, ResolvedAgent, TokenUsage, events::SessionStart};
use holodeck_orchestrator::{LoopRules, LoopStep, TurnObserver};
use holodeck_turn::TurnRecord;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The events of an answer.
pub(super) type AnswerEvents = UnboundedReceiver<Result<BackendEvent, BackendError>>;

/// The type of the events with the steps of a loop: its `rules`, and the `step`.
pub const LOOP_STEP: &str = "loop_step";

/// The events and notes of an answer on their way to who asked or to the store.
pub(super) struct Recorded {
    pub(super) events: AnswerEvents,
    notes: tokio::sync::Mutex<UnboundedReceiver<RunNote>>,
}

/// Passes the events of all turns on, as those of one answer.
pub(super) struct Recorder {
    events: UnboundedSender<Result<BackendEvent, BackendError>>,
    notes: UnboundedSender<RunNote>,
    turn: AtomicU32,
    /// Whether a message is not complete.
    is_open: AtomicBool,
    turns: Mutex<Turns>,
    details: Mutex<JsonMap>,
}

/// The turns of an execution so far.
#[derive(Default)]
struct Turns {
    fold: ResultFold,
    results: Vec<ExecutionResult>,
    /// The usage of all of them; `None` if it is not known of one.
    used: Option<(Option<TokenUsage>, Option<f64>)>,
    error: Option<BackendError>,
    /// The ids of calls in this turn, and in those before.
    calls: HashSet<String>,
    earlier_calls: HashSet<String>,
}

/// How an execution ended.
pub(super) enum Ending {
    /// With this answer.
    Answered(String),
    /// An executor ran, and did not do what was asked.
    Failed {
        answer: String,
        reason: String,
    },
    /// Nothing executed it, or its executor could not be run.
    Broken(String),
    Cancelled,
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
            turns: Mutex::default(),
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

    /// Ends the answer. A text that no turn wrote becomes its last message.
    pub(super) fn end(&self, ending: Ending, execution: ExecutorRecord, details: JsonMap) {
        self.close_message(StopReason::aborted());
        *self.details.lock().unwrap_or_else(PoisonError::into_inner) = details;
        let execution = Box::new(execution);
        self.send(BackendEvent::Executed(execution.clone()));
        let error = self.turns().error.clone();
        let ending = match (ending, error) {
            // A recording that has no answer is never made up for by another executor.
            (_, Some(miss @ BackendError::ReplayMiss(_))) => Err(miss),
            (Ending::Broken(_), Some(error)) => Err(error),
            (Ending::Broken(reason), None) => Err(BackendError::init(reason)),
            (Ending::Cancelled, _) => Err(BackendError::Cancelled),
            (Ending::Answered(answer), _) => Ok((answer, Outcome::Completed)),
            (Ending::Failed { answer, reason }, _) => Ok((answer, Outcome::Failed { reason })),
        };
        let end = ending.map(|(answer, outcome)| {
            let is_last = self.turns().results.last().map(|result| &result.response) == Some(&answer);
            if !is_last && !answer.is_empty() {
                self.send(BackendEvent::Text { text: answer.clone() });
                self.close_message(StopReason::EndTurn);
            }
            let mut result = self.turns().result(answer, outcome);
            result.execution = Some(execution);
            BackendEvent::End(Box::new(result))
        });
        // Without a receiver the recording has failed, which is reported there.
        let _ = self.events.send(end);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.turns().fold.observe(&event);
        let _ = self.events.send(Ok(event));
    }

    fn extra(&self) -> JsonMap {
        self.details
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Turns {
    /// Adds what a turn, or a question beside the turns, used.
    fn count(&mut self, record: &TurnRecord) {
        let usage = |mut sum: TokenUsage, more: TokenUsage| {
            sum += more;
            sum
        };
        self.used = Some(match self.used {
            None => (record.usage, record.cost_usd),
            Some((tokens, cost)) => (
                tokens.zip(record.usage).map(|(own, more)| usage(own, more)),
                cost.zip(record.cost_usd).map(|(own, more)| own + more),
            ),
        });
    }

    /// The result of the execution, whose answer is that of one of the turns, or a text that no turn wrote.
    fn result(&mut self, answer: String, outcome: Outcome) -> ExecutionResult {
        let all = std::mem::take(&mut self.fold).finish(outcome);
        let of_answer = self.results.iter().rev().find(|result| result.response == answer);
        let of_answer = of_answer.cloned().unwrap_or_default();
        let (token_usage, cost_usd) = self.used.unwrap_or_default();
        ExecutionResult {
            response: answer,
            token_usage,
            cost_usd,
            structured_output: of_answer.structured_output,
            number_odds: of_answer.number_odds,
            thinking: of_answer.thinking,
            model: of_answer.model,
            truncated_by: of_answer.truncated_by,
            finish_reason: of_answer.finish_reason,
            ..all
        }
    }
}

impl TurnObserver for Recorder {
    fn on_turn(&self) {
        self.close_message(StopReason::aborted());
        self.turn.fetch_add(1, Ordering::Relaxed);
        let mut turns = self.turns();
        let ended = std::mem::take(&mut turns.calls);
        turns.earlier_calls.extend(ended);
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
        let event = {
            let mut turns = self.turns();
            if let BackendEvent::ToolCall(call) = event {
                turns.calls.insert(call.call_id.clone());
            }
            in_turn(event.clone(), turn, &turns.earlier_calls)
        };
        self.send(event);
    }

    fn on_turn_end(&self, record: &TurnRecord, error: Option<&BackendError>) {
        let mut turns = self.turns();
        turns.results.push(record.result.clone());
        turns.count(record);
        let is_miss = |error: &BackendError| matches!(error, BackendError::ReplayMiss(_));
        if !turns.error.as_ref().is_some_and(is_miss) {
            turns.error = error.cloned();
        }
    }

    fn on_question(&self, record: &TurnRecord) {
        self.turns().count(record);
    }

    fn on_missing_answer(&self, error: &BackendError) {
        self.turns().error = Some(error.clone());
    }
}

/// The event with ids of calls that no `earlier` turn of the execution has.
fn in_turn(event: BackendEvent, turn: u32, earlier: &HashSet<String>) -> BackendEvent {
    let id = |id: String| {
        if earlier.contains(&id) {
            format!("{turn}:{id}")
        } else {
            id
        }
    };
    match event {
        BackendEvent::ToolCall(mut call) => {
            call.call_id = id(call.call_id);
            BackendEvent::ToolCall(call)
        }
        BackendEvent::ToolResult(mut result) => {
            result.call_id = id(result.call_id);
            BackendEvent::ToolResult(result)
        }
        BackendEvent::ApprovalDecided(mut approval) => {
            approval.call_id = id(approval.call_id);
            BackendEvent::ApprovalDecided(approval)
        }
        BackendEvent::Nested {
            parent_call_id,
            event,
        } => BackendEvent::Nested {
            parent_call_id: id(parent_call_id),
            event: Box::new(in_turn(*event, turn, earlier)),
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
        model: Some(config.answerer()),
        backend: Some(config.backend_name().to_owned()),
        ..SessionStart::default()
    };
    let session = recording.session(run.session_id, Some(LOCAL_USER), start).await;
    if let Err(error) = session {
        return Some(error.to_string());
    }
    let mut new = NewRun::new(run.session_id, run.redactor.text(run.task));
    new.run_id = Some(run.run_id.to_owned());
    new.user_id = Some(LOCAL_USER.to_owned());
    let events: EventStream<'_> = mask_events(answer_stream(events).boxed(), run.redactor);
    let recorded = recording.record(new, events).await;
    recorded.err().map(|error| error.to_string())
}

fn answer_stream(
    events: AnswerEvents,
) -> impl futures::Stream<Item = Result<BackendEvent, BackendError>> + Send {
    futures::stream::unfold(events, |mut events| async move {
        let event = events.recv().await?;
        Some((event, events))
    })
}
