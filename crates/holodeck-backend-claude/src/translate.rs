//! What the CLI writes, as [`BackendEvent`]s. Pure: frame by frame, without a process.

mod ending;
mod message;
mod scope;

use std::collections::{BTreeMap, BTreeSet};

use holodeck_backend_api::{BackendError, BackendEvent, Outcome, StopReason, TokenUsage, ToolNames};
use serde_json::Value;

use self::scope::{Scope, Shown};
use crate::wire::{
    ApiRetry, AssistantFrame, Block, Frame, Init, ResultFrame, StreamFrame, TaskNews, UserFrame,
};

/// What the CLI writes in the place of nothing.
const NO_CONTENT: &str = "(no content)";

/// What the translation goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslateOptions {
    /// The agent has a `response_format`: the CLI's own tool for it is hidden, and an answer without the object is
    /// none.
    pub(crate) structured: bool,
    /// The names of the tools.
    pub(crate) names: ToolNames,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub(crate) enum TurnDone {
    /// The agent answered. What it answered may still be a refusal or nothing.
    Answered {
        stop_reason: StopReason,
        /// The object, when one was asked for. Also emitted as [`BackendEvent::StructuredOutput`].
        structured: Option<Value>,
    },
    /// The agent ended the turn badly.
    Ended(Outcome),
    /// It was interrupted. Whether by this host only the host knows: a signal to the CLI has the same effect.
    Interrupted,
    /// The turn could not be ended.
    Failed(BackendError),
}

/// Translates the frames of one conversation.
///
/// Tokens: each message of the main agent is counted once, when it is complete, by what its stream reported. The sum of
/// a turn is then brought up to what [`ResultFrame`] says of all models, subagents included.
#[derive(Debug)]
pub(crate) struct Translator {
    options: TranslateOptions,
    names: Shown,
    main: Scope,
    /// Agents that the main one started, by the call that did.
    nested: BTreeMap<String, Scope>,
    /// Subagents that go on when the turn ends.
    background: BTreeSet<String>,
    /// The conversation that was last told of.
    session_id: Option<String>,
    /// Of this turn, as emitted.
    counted: TokenUsage,
    /// Of the agents that the main one started, in this turn.
    counted_nested: TokenUsage,
    was_interrupted: bool,
    /// The error that the CLI reported in the place of an answer.
    reported: Option<AssistantFrame>,
}

impl Translator {
    pub(crate) fn new(options: TranslateOptions) -> Self {
        let names = Shown::new(options.names.clone(), options.structured);
        Self {
            options,
            names,
            main: Scope::default(),
            nested: BTreeMap::new(),
            background: BTreeSet::new(),
            session_id: None,
            counted: TokenUsage::default(),
            counted_nested: TokenUsage::default(),
            was_interrupted: false,
            reported: None,
        }
    }

    /// Takes in one frame. `Some` when the turn is over, which is at its `result` or before.
    pub(crate) fn observe(&mut self, frame: &Frame, emit: &mut dyn FnMut(BackendEvent)) -> Option<TurnDone> {
        match frame {
            Frame::Init(init) => self.init(init, emit),
            Frame::ApiRetry(retry) => return self.retry(retry, emit),
            Frame::ModelFallback { from, to, .. } => emit(fallback(from.as_deref(), to.as_deref())),
            Frame::Task(news) => self.task(news, emit),
            Frame::StreamEvent(StreamFrame { parent, event }) => {
                self.within(parent.as_deref(), emit, |scope, names, emit| {
                    scope.stream(event, names, emit);
                });
            }
            Frame::Assistant(frame) => self.assistant(frame, emit),
            Frame::User(frame) => self.user(frame, emit),
            Frame::Result(result) => return Some(self.result(result, emit)),
            Frame::PermissionDenied { .. }
            | Frame::SessionState(_)
            | Frame::System { .. }
            | Frame::ControlRequest { .. }
            | Frame::ControlResponse { .. }
            | Frame::ControlCancel { .. }
            | Frame::ConversationReset { .. }
            | Frame::Other { .. } => {}
        }
        None
    }

    /// No more frames will come: closes what is open, so that what had arrived is whole.
    pub(crate) fn end_of_stream(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        self.close_nested(emit);
        self.within(None, emit, |scope, _, emit| scope.close(emit));
        self.begin_turn();
    }

    /// Subagents that go on after the turn ended: their end starts another turn, with a result of its own.
    #[cfg(test)]
    pub(crate) fn background_tasks(&self) -> usize {
        self.background.len()
    }

    fn init(&mut self, init: &Init, emit: &mut dyn FnMut(BackendEvent)) {
        let Some(session_id) = &init.session_id else {
            return;
        };
        if self.session_id.as_ref() != Some(session_id) {
            self.session_id = Some(session_id.clone());
            emit(BackendEvent::SessionStarted {
                session_id: session_id.clone(),
                model: init.model.clone(),
            });
        }
    }

    /// Refused credentials stay refused, but the CLI would try for minutes.
    fn retry(&mut self, retry: &ApiRetry, emit: &mut dyn FnMut(BackendEvent)) -> Option<TurnDone> {
        let error = ending::refused_credentials(retry)?;
        self.end_of_stream(emit);
        Some(TurnDone::Failed(error))
    }

    fn task(&mut self, news: &TaskNews, emit: &mut dyn FnMut(BackendEvent)) {
        match news {
            TaskNews::Started {
                task_id,
                in_background: true,
                ..
            } => {
                self.background.insert(task_id.clone());
            }
            TaskNews::Started { .. } => {}
            TaskNews::Ended { task_id, call_id } => {
                self.background.remove(task_id);
                if let Some(call_id) = call_id {
                    self.close_nested_of(call_id, emit);
                }
            }
            TaskNews::Running { task_ids } => self.background = task_ids.iter().cloned().collect(),
        }
    }

    fn assistant(&mut self, frame: &AssistantFrame, emit: &mut dyn FnMut(BackendEvent)) {
        if frame.error.is_some() {
            // The text of the error is no answer of the agent.
            if frame.parent.is_none() {
                self.reported = Some(frame.clone());
            }
            return;
        }
        if frame.is_synthetic() && frame.blocks == [Block::Text(NO_CONTENT.to_owned())] {
            return;
        }
        self.within(frame.parent.as_deref(), emit, |scope, names, emit| {
            scope.assistant(frame, names, emit);
        });
    }

    fn user(&mut self, frame: &UserFrame, emit: &mut dyn FnMut(BackendEvent)) {
        for block in &frame.blocks {
            match block {
                Block::ToolResult {
                    call_id,
                    text,
                    is_error,
                } => {
                    // What the call started is over before the call is.
                    self.close_nested_of(call_id, emit);
                    self.within(frame.parent.as_deref(), emit, |scope, _, emit| {
                        scope.tool_result(call_id, text, *is_error, emit);
                    });
                }
                Block::Text(text)
                    if frame.parent.is_none() && text.starts_with("[Request interrupted by user") =>
                {
                    self.was_interrupted = true;
                }
                _ => {}
            }
        }
    }

    fn result(&mut self, result: &ResultFrame, emit: &mut dyn FnMut(BackendEvent)) -> TurnDone {
        if self.background.is_empty() {
            self.close_nested(emit);
        }
        self.within(None, emit, |scope, _, emit| scope.close(emit));
        if let Some(missing) = ending::uncounted(result, self.counted, self.counted_nested) {
            emit(BackendEvent::Usage(missing));
        }
        if let Some(usd) = result.all_cost_usd {
            emit(BackendEvent::Cost { usd });
        }
        let seen = ending::Seen {
            structured: self.options.structured,
            was_interrupted: self.was_interrupted,
            reported: self.reported.as_ref(),
            stop_reason: self.main.last_stop_reason(),
        };
        let done = ending::of(result, &seen);
        if let TurnDone::Answered {
            structured: Some(value),
            ..
        } = &done
        {
            emit(BackendEvent::StructuredOutput(value.clone()));
        }
        self.begin_turn();
        done
    }

    fn begin_turn(&mut self) {
        self.main = Scope::default();
        self.counted = TokenUsage::default();
        self.counted_nested = TokenUsage::default();
        self.was_interrupted = false;
        self.reported = None;
    }

    fn close_nested(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        while let Some(call_id) = self.nested.keys().next().cloned() {
            self.close_nested_of(&call_id, emit);
        }
    }

    fn close_nested_of(&mut self, call_id: &str, emit: &mut dyn FnMut(BackendEvent)) {
        if let Some(mut scope) = self.nested.remove(call_id) {
            let counted = &mut self.counted_nested;
            scope.close(&mut |event| emit(nested(call_id, count(event, counted))));
        }
    }

    /// Runs `act` on the agent that a frame comes from: the main one, whose tokens are counted, or one it started.
    fn within(
        &mut self,
        parent: Option<&str>,
        emit: &mut dyn FnMut(BackendEvent),
        act: impl FnOnce(&mut Scope, &Shown, &mut dyn FnMut(BackendEvent)),
    ) {
        if let Some(parent) = parent {
            let counted = &mut self.counted_nested;
            let scope = self.nested.entry(parent.to_owned()).or_default();
            act(scope, &self.names, &mut |event| {
                emit(nested(parent, count(event, counted)));
            });
        } else {
            let counted = &mut self.counted;
            act(&mut self.main, &self.names, &mut |event| {
                emit(count(event, counted));
            });
        }
    }
}

/// Adds the tokens of an event to a sum.
fn count(event: BackendEvent, sum: &mut TokenUsage) -> BackendEvent {
    if let BackendEvent::Usage(usage) = &event {
        *sum += *usage;
    }
    event
}

fn nested(parent: &str, event: BackendEvent) -> BackendEvent {
    BackendEvent::Nested {
        parent_call_id: parent.to_owned(),
        event: Box::new(event),
    }
}

fn fallback(from: Option<&str>, to: Option<&str>) -> BackendEvent {
    let from = from.unwrap_or("the model");
    let to = to.unwrap_or("another model");
    BackendEvent::Notice {
        message: format!("{from} is overloaded; {to} answers in its place"),
    }
}

#[cfg(test)]
mod tests;
