//! Runs turns of an agent and passes what happens on: to the evidence, to hooks, and to who records it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holodeck_backend_api::{AgentBackend, BackendError, BackendEvent, ToolUsage, TurnRequest};
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, TurnRunner};
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    evidence::{Evidence, EvidenceCollector, KnownTools},
    hooks::{FLUSH_LIMIT, Hook, HookDispatcher, HookEvent, HookPoint, HookReport},
};

/// An agent that is ready to answer, and how its turns are run.
///
/// ```
/// use std::sync::Arc;
///
/// use holodeck_orchestrator::{KnownTools, ReadyAgent, api::AgentBackend, turns::TurnRunner};
///
/// fn ready(backend: Arc<dyn AgentBackend>, turns: TurnRunner) -> ReadyAgent {
///     ReadyAgent { backend, turns, tools: KnownTools::default() }
/// }
/// ```
#[derive(Clone)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ReadyAgent {
    /// Answers.
    pub backend: Arc<dyn AgentBackend>,
    /// Runs its turns.
    pub turns: TurnRunner,
    /// Facts about its tools.
    pub tools: KnownTools,
}

/// Receives every event of every turn of an execution, for instance to store them. It must not block.
pub trait TurnObserver: Send + Sync {
    /// A turn begins; the one before is over, whether it ended well or not.
    fn on_turn(&self) {}

    /// Receives an event.
    fn on_event(&self, event: &BackendEvent);

    /// Receives the record of a turn that ended, and why it could not be completed.
    fn on_turn_end(&self, record: &TurnRecord, error: Option<&BackendError>) {
        let _ = (record, error);
    }

    /// Receives the record of a question that is no turn, such as which specialist fits, unless the message counts it.
    fn on_question(&self, record: &TurnRecord) {
        let _ = record;
    }

    /// Receives why a question that is no turn has no answer in a recording.
    fn on_missing_answer(&self, error: &BackendError) {
        let _ = error;
    }
}

/// Everything that observes executions.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) turns: Option<Arc<dyn TurnObserver>>,
}

/// Observes one execution.
pub(crate) struct Watch {
    session_id: String,
    hooks: HookDispatcher,
    turns: Option<Arc<dyn TurnObserver>>,
    /// The message that is executed, if it is one of a conversation or a test.
    message: Option<TurnRequest>,
    state: Mutex<WatchState>,
}

struct WatchState {
    evidence: EvidenceCollector,
    turn: u32,
    /// The calls that started nested agents which are not over.
    nested: HashSet<String>,
    messages: Vec<Message>,
    text: String,
    backend_session: Option<String>,
}

/// A message of a backend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// The final answer.
    Result(Value),
    /// Text on the way.
    Text(String),
}

/// The output of messages: the last result, else the last text, else nothing.
pub(crate) fn aggregate(messages: &[Message]) -> String {
    let result = messages.iter().rev().find_map(|message| match message {
        Message::Result(Value::String(text)) => Some(text.clone()),
        Message::Result(other) => Some(other.to_string()),
        Message::Text(_) => None,
    });
    let text = || {
        messages.iter().rev().find_map(|message| match message {
            Message::Text(text) => Some(text.clone()),
            Message::Result(_) => None,
        })
    };
    result.or_else(text).unwrap_or_default()
}

/// How a turn ended.
pub(crate) enum TurnResult {
    Ended {
        record: Box<TurnRecord>,
        error: Option<BackendError>,
    },
    Stopped,
}

impl Watch {
    pub(crate) fn start(observers: &Observers, session_id: &str, message: Option<TurnRequest>) -> Self {
        let watch = Self {
            session_id: session_id.to_owned(),
            hooks: HookDispatcher::start(&observers.hooks),
            turns: observers.turns.clone(),
            message,
            state: Mutex::new(WatchState {
                evidence: EvidenceCollector::new(session_id),
                turn: 0,
                nested: HashSet::new(),
                messages: Vec::new(),
                text: String::new(),
                backend_session: None,
            }),
        };
        watch.emit("start".to_owned(), HookPoint::SessionStart);
        watch
    }

    /// Ends the execution and waits for the hooks.
    pub(crate) async fn finish(&self) -> HookReport {
        self.finish_within(FLUSH_LIMIT).await
    }

    async fn finish_within(&self, limit: Duration) -> HookReport {
        self.emit("end".to_owned(), HookPoint::SessionEnd);
        self.hooks.finish(limit).await
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        // A panic while it was locked left at most one event incomplete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit(&self, event_id: String, point: HookPoint) {
        let event = HookEvent::new(event_id, self.session_id.clone(), Timestamp::now(), point);
        let event = Arc::new(event);
        self.state().evidence.observe(&event);
        self.hooks.dispatch(&event);
    }

    /// Counts a question that is no turn, once: for the message if there is one.
    pub(crate) fn count(&self, model: &str, record: &TurnRecord) {
        if record.spent().is_nothing() {
            return;
        }
        match (&self.message, &self.turns) {
            (Some(message), _) => message.spending.add(ToolUsage {
                model: model.to_owned(),
                answered_by: record.result.model.clone(),
                usage: record.usage,
                cost_usd: record.cost_usd,
            }),
            (None, Some(turns)) => turns.on_question(record),
            (None, None) => {}
        }
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn TurnObserver>> {
        self.turns.clone()
    }

    pub(crate) fn message(&self) -> Option<&TurnRequest> {
        self.message.as_ref()
    }

    /// Passes on that a recording has no answer to a question that is no turn.
    pub(crate) fn miss(&self, error: &BackendError) {
        if let Some(turns) = &self.turns {
            turns.on_missing_answer(error);
        }
    }

    /// Passes an event that is not a backend's on, such as a tool call of a skill.
    pub(crate) fn record(&self, event: &BackendEvent) {
        self.on_event(event);
    }

    fn on_event(&self, event: &BackendEvent) {
        if let Some(turns) = &self.turns {
            turns.on_event(event);
        }
        for (id, point) in self.points(event, None) {
            self.emit(id, point);
        }
    }

    /// Translates an event to the moments that hooks observe, each part with its id.
    fn points(&self, event: &BackendEvent, parent: Option<&str>) -> Vec<(String, HookPoint)> {
        let mut state = self.state();
        let turn = state.turn;
        match event {
            BackendEvent::ToolCall(call) => {
                let id = format!("{turn}/call/{}", call.call_id);
                vec![(id, HookPoint::PreToolUse { call: call.clone() })]
            }
            BackendEvent::ToolResult(result) => {
                let call_id = result.call_id.clone();
                let result = HookPoint::PostToolUse {
                    result: result.clone(),
                };
                let mut points = vec![(format!("{turn}/result/{call_id}"), result)];
                if state.nested.remove(&call_id) {
                    let id = format!("{turn}/stop/{call_id}");
                    points.push((id, HookPoint::SubagentStop { call_id }));
                }
                points
            }
            BackendEvent::Nested {
                parent_call_id,
                event,
            } => {
                let mut points = Vec::new();
                if state.nested.insert(parent_call_id.clone()) {
                    let call_id = parent_call_id.clone();
                    let id = format!("{turn}/start/{call_id}");
                    points.push((id, HookPoint::SubagentStart { call_id }));
                }
                drop(state);
                points.extend(self.points(event, Some(parent_call_id)));
                points
            }
            BackendEvent::Text { text } if parent.is_none() => {
                state.text.push_str(text);
                Vec::new()
            }
            BackendEvent::TurnEnd { .. } if parent.is_none() => {
                let text = std::mem::take(&mut state.text);
                if !text.is_empty() {
                    state.messages.push(Message::Text(text));
                }
                Vec::new()
            }
            BackendEvent::SessionStarted { session_id, .. } if parent.is_none() => {
                state.backend_session = Some(session_id.clone());
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Runs one turn.
    pub(crate) async fn run(
        &self,
        agent: &ReadyAgent,
        prompt: &str,
        cancel: &CancellationToken,
    ) -> TurnResult {
        {
            let mut state = self.state();
            state.turn += 1;
            state.text.clear();
            state.messages.clear();
            state.nested.clear();
            state.evidence.learn(agent.tools.clone());
        }
        if let Some(turns) = &self.turns {
            turns.on_turn();
        }
        let message = self.message.as_ref();
        let input = TurnInput {
            input: prompt,
            unit: message.and_then(|message| message.unit.as_deref()),
            trial: message.map_or(0, |message| message.trial),
            ..TurnInput::default()
        };
        let start = |request| agent.backend.start(with_message(request, message));
        let end = agent
            .turns
            .run(input, cancel, start, |event| self.on_event(event))
            .await;
        match end {
            TurnEnd::Ended { record, error } => {
                if let Some(turns) = &self.turns {
                    turns.on_turn_end(&record, error.as_ref());
                }
                if error.is_none() {
                    let response = Value::String(record.result.response.clone());
                    self.state().messages.push(Message::Result(response));
                }
                TurnResult::Ended { record, error }
            }
            TurnEnd::Stopped => TurnResult::Stopped,
        }
    }

    /// The evidence so far.
    pub(crate) fn evidence(&self) -> Evidence {
        self.state().evidence.evidence().clone()
    }

    /// The tools that may have changed something so far.
    pub(crate) fn side_effects(&self) -> Vec<String> {
        self.state().evidence.side_effects()
    }

    /// How many tool calls there were so far.
    pub(crate) fn calls(&self) -> usize {
        self.state().evidence.evidence().tool_invocations.len()
    }

    /// The tools that may have changed something after the first `calls`.
    pub(crate) fn side_effects_since(&self, calls: usize) -> Vec<String> {
        self.state().evidence.side_effects_since(calls)
    }

    /// How many tool calls may have changed something so far.
    pub(crate) fn calls_with_side_effects(&self) -> usize {
        self.state().evidence.calls_with_side_effects()
    }

    /// The output of the last turn.
    pub(crate) fn output(&self) -> String {
        aggregate(&self.state().messages)
    }

    /// The number of messages of the last turn.
    pub(crate) fn message_count(&self) -> usize {
        self.state().messages.len()
    }

    /// The text of the last turn that arrived before it failed.
    pub(crate) fn partial(&self) -> Option<String> {
        let state = self.state();
        let texts = state.messages.iter().filter_map(|message| match message {
            Message::Text(text) => Some(text.as_str()),
            Message::Result(_) => None,
        });
        let open = Some(state.text.as_str()).filter(|text| !text.is_empty());
        let texts: Vec<&str> = texts.chain(open).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// The backend's own id of the conversation.
    pub(crate) fn backend_session(&self) -> Option<String> {
        self.state().backend_session.clone()
    }
}

/// A turn of an execution with what belongs to its message.
fn with_message(turn: TurnRequest, message: Option<&TurnRequest>) -> TurnRequest {
    let Some(message) = message else { return turn };
    TurnRequest {
        images: message.images.clone(),
        thinking: message.thinking,
        may_forget: message.may_forget,
        wishes: message.wishes.clone(),
        number_odds: message.number_odds,
        traceparent: Arc::clone(&message.traceparent),
        approver: message.approver.clone(),
        ..turn
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_output_is_the_last_result_else_the_last_text() {
        let text = |text: &str| Message::Text(text.to_owned());
        let result = |value| Message::Result(value);
        assert_eq!(
            aggregate(&[result(json!("a")), text("b"), result(json!("c"))]),
            "c"
        );
        assert_eq!(aggregate(&[result(json!("a")), text("b")]), "a");
        assert_eq!(aggregate(&[text("x"), text("y")]), "y");
        assert_eq!(aggregate(&[]), "");
        assert_eq!(aggregate(&[result(json!({"n": 1}))]), "{\"n\":1}");
    }
}
