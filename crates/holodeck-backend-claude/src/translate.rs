//! Converts the CLI's frames to [`BackendEvent`]s. Pure: needs no process.

mod ending;
mod message;
mod scope;

use std::collections::{BTreeMap, BTreeSet};

use holodeck_backend_api::{BackendError, BackendEvent, Outcome, StopReason, TokenUsage, ToolNames};
use serde_json::Value;

use self::scope::{Scope, VisibleTools};
use crate::wire::{
    ApiRetry, AssistantFrame, Block, Frame, Init, ResultFrame, StreamEvent, StreamFrame, TaskChange,
    UserFrame,
};

/// The CLI's text for an empty answer.
const NO_CONTENT: &str = "(no content)";

/// Options of the translation.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslateOptions {
    /// The agent has a `response_format`: the CLI's own tool for it is hidden, and an answer without the object is a
    /// failure.
    pub(crate) structured: bool,
    /// The names of the tools.
    pub(crate) names: ToolNames,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The agent answered. The answer may still be a refusal or empty.
    Answered {
        stop_reason: StopReason,
        /// The object, if one was requested. Also emitted as [`BackendEvent::StructuredOutput`].
        structured: Option<Value>,
    },
    /// The turn ended with an outcome other than an answer.
    Ended(Outcome),
    /// The turn was interrupted, by the host or by a signal to the CLI.
    Interrupted,
    /// The turn failed.
    Failed(BackendError),
}

/// Translates the frames of one conversation.
///
/// Tokens: each message of the main agent is counted once, when it is complete, with the usage from its stream. At the
/// end, the difference to the total in the [`ResultFrame`] is added, which covers all models and subagents.
#[derive(Debug)]
pub(crate) struct Translator {
    options: TranslateOptions,
    tools: VisibleTools,
    main: Scope,
    /// Agents that the main agent started, by the id of the call that started them.
    nested: BTreeMap<String, Scope>,
    /// Subagents that continue when the turn ends.
    background: BTreeSet<String>,
    /// The conversation of the last `SessionStarted` event.
    session_id: Option<String>,
    /// The usage that was emitted in this turn.
    counted: TokenUsage,
    /// The usage of nested agents in this turn.
    counted_nested: TokenUsage,
    was_interrupted: bool,
    /// The error that the CLI reported instead of an answer.
    error_frame: Option<AssistantFrame>,
    /// The ids of the main agent's messages in this turn, and in earlier ones.
    messages: BTreeSet<String>,
    earlier_messages: BTreeSet<String>,
}

impl Translator {
    pub(crate) fn new(options: TranslateOptions) -> Self {
        let tools = VisibleTools::new(options.names.clone(), options.structured);
        Self {
            options,
            tools,
            main: Scope::default(),
            nested: BTreeMap::new(),
            background: BTreeSet::new(),
            session_id: None,
            counted: TokenUsage::default(),
            counted_nested: TokenUsage::default(),
            was_interrupted: false,
            error_frame: None,
            messages: BTreeSet::new(),
            earlier_messages: BTreeSet::new(),
        }
    }

    /// Translates one frame. Returns `Some` at the end of the turn: at its `result` or earlier.
    pub(crate) fn observe(&mut self, frame: &Frame, emit: &mut dyn FnMut(BackendEvent)) -> Option<Ending> {
        match frame {
            Frame::Init(init) => self.init(init, emit),
            Frame::ApiRetry(retry) => return self.retry(retry, emit),
            Frame::ModelFallback { from, to, .. } => emit(fallback(from.as_deref(), to.as_deref())),
            Frame::Task(change) => self.task(change, emit),
            Frame::StreamEvent(StreamFrame { parent, event }) => {
                if let (
                    None,
                    StreamEvent::MessageStart {
                        message_id: Some(id), ..
                    },
                ) = (parent, event)
                {
                    self.messages.insert(id.clone());
                }
                self.with_scope(parent.as_deref(), emit, |scope, tools, emit| {
                    scope.stream(event, tools, emit);
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

    /// Ends the stream: closes open messages, so that their partial content is emitted completely.
    pub(crate) fn end_of_stream(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        self.close_nested(emit);
        self.with_scope(None, emit, |scope, _, emit| scope.close(emit));
        self.begin_turn();
    }

    /// The number of subagents that continue after the turn. Their end starts another turn with its own result.
    #[cfg(test)]
    pub(crate) fn background_tasks(&self) -> usize {
        self.background.len()
    }

    fn init(&mut self, init: &Init, emit: &mut dyn FnMut(BackendEvent)) {
        self.tools.offer(&init.tools);
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

    /// Ends the turn if the credentials are refused; the CLI would retry for minutes.
    fn retry(&mut self, retry: &ApiRetry, emit: &mut dyn FnMut(BackendEvent)) -> Option<Ending> {
        let error = ending::refused_credentials(retry)?;
        self.end_of_stream(emit);
        Some(Ending::Failed(error))
    }

    fn task(&mut self, change: &TaskChange, emit: &mut dyn FnMut(BackendEvent)) {
        match change {
            TaskChange::Started {
                task_id,
                in_background: true,
                ..
            } => {
                self.background.insert(task_id.clone());
            }
            TaskChange::Started { .. } => {}
            TaskChange::Ended { task_id, call_id } => {
                self.background.remove(task_id);
                if let Some(call_id) = call_id {
                    self.close_nested_of(call_id, emit);
                }
            }
            TaskChange::Running { task_ids } => self.background = task_ids.iter().cloned().collect(),
        }
    }

    fn assistant(&mut self, frame: &AssistantFrame, emit: &mut dyn FnMut(BackendEvent)) {
        if frame.error.is_some() {
            // The error text is not an answer of the agent.
            if frame.parent.is_none() {
                self.error_frame = Some(frame.clone());
            }
            return;
        }
        if frame.is_synthetic() && frame.blocks == [Block::Text(NO_CONTENT.to_owned())] {
            return;
        }
        if let (None, Some(id)) = (&frame.parent, &frame.message_id) {
            // A frame of the conversation so far is not part of this turn, unless its message is streamed again.
            if self.earlier_messages.contains(id) && !self.messages.contains(id) {
                return;
            }
            self.messages.insert(id.clone());
        }
        self.with_scope(frame.parent.as_deref(), emit, |scope, tools, emit| {
            scope.assistant(frame, tools, emit);
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
                    // Agents that the call started end before the call.
                    self.close_nested_of(call_id, emit);
                    self.with_scope(frame.parent.as_deref(), emit, |scope, _, emit| {
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

    fn result(&mut self, result: &ResultFrame, emit: &mut dyn FnMut(BackendEvent)) -> Ending {
        if self.background.is_empty() {
            self.close_nested(emit);
        }
        self.with_scope(None, emit, |scope, _, emit| scope.close(emit));
        if let Some(missing) = ending::uncounted(result, self.counted, self.counted_nested) {
            emit(BackendEvent::Usage(missing));
        }
        if let Some(usd) = result.all_cost_usd {
            emit(BackendEvent::Cost { usd });
        }
        let state = ending::TurnState {
            structured: self.options.structured,
            was_interrupted: self.was_interrupted,
            error_frame: self.error_frame.as_ref(),
            stop_reason: self.main.last_stop_reason(),
        };
        let ending = ending::classify(result, &state);
        if let Ending::Answered {
            structured: Some(value),
            ..
        } = &ending
        {
            emit(BackendEvent::StructuredOutput(value.clone()));
        }
        self.begin_turn();
        ending
    }

    fn begin_turn(&mut self) {
        self.main = Scope::default();
        self.counted = TokenUsage::default();
        self.counted_nested = TokenUsage::default();
        self.was_interrupted = false;
        self.error_frame = None;
        self.earlier_messages.append(&mut self.messages);
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

    /// Runs `act` on the agent of a frame, and counts the tokens of the events it emits.
    fn with_scope(
        &mut self,
        parent: Option<&str>,
        emit: &mut dyn FnMut(BackendEvent),
        act: impl FnOnce(&mut Scope, &VisibleTools, &mut dyn FnMut(BackendEvent)),
    ) {
        if let Some(parent) = parent {
            let counted = &mut self.counted_nested;
            let scope = self.nested.entry(parent.to_owned()).or_default();
            act(scope, &self.tools, &mut |event| {
                emit(nested(parent, count(event, counted)));
            });
        } else {
            let counted = &mut self.counted;
            act(&mut self.main, &self.tools, &mut |event| {
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
