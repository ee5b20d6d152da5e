//! Converts the CLI's frames to [`BackendEvent`]s. Pure: needs no process.

mod ending;
mod message;
mod scope;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use holodeck_backend_api::{BackendError, BackendEvent, Outcome, StopReason, ToolNames};

use self::{
    scope::{Scope, VisibleTools},
    tokens::TurnTokens,
};
use crate::wire::{
    ApiRetry, AssistantFrame, Block, Compaction, Frame, Init, ResultFrame, Spending, StreamEvent,
    StreamFrame, TaskChange, UserFrame,
};

/// The CLI's text for an empty answer.
const NO_CONTENT: &str = "(no content)";

/// Options of the translation.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslateOptions {
    /// The agent has a `response_format`: the CLI's own tool for it is hidden, and an answer without the object is a
    /// failure.
    pub(crate) structured: bool,
    /// The limit of an answer in tokens.
    pub(crate) max_tokens: Option<u32>,
    /// The names of the tools.
    pub(crate) names: ToolNames,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The agent answered. The answer may still be a refusal or empty.
    Answered {
        stop_reason: StopReason,
        /// The JSON of the object as the model wrote it, if one was requested.
        structured: Option<String>,
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
/// end, what else each model used is emitted from the totals in the [`ResultFrame`].
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
    /// The model of the main agent.
    model: Option<String>,
    tokens: TurnTokens,
    /// The spending of the process before this turn; `None` if that is not known, as after it continued a conversation.
    spent: Option<Spending>,
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
            model: None,
            tokens: TurnTokens::default(),
            spent: Some(Spending::default()),
            was_interrupted: false,
            error_frame: None,
            messages: BTreeSet::new(),
            earlier_messages: BTreeSet::new(),
        }
    }

    /// Sets what the process used before; `None` if that is not known.
    pub(crate) fn with_spent(mut self, spent: Option<Spending>) -> Self {
        self.spent = spent;
        self
    }

    /// The spending of the process so far.
    pub(crate) fn spent(&self) -> Option<&Spending> {
        self.spent.as_ref()
    }

    /// Translates one frame. Returns `Some` at the end of the turn: at its `result` or earlier.
    pub(crate) fn observe(&mut self, frame: &Frame, emit: &mut dyn FnMut(BackendEvent)) -> Option<Ending> {
        match frame {
            Frame::Init(init) => self.init(init, emit),
            Frame::ApiRetry(retry) => return self.retry(retry, emit),
            Frame::ModelFallback { from, to, .. } => emit(fallback(from.as_deref(), to.as_deref())),
            Frame::Compaction(compaction) => emit(compaction_notice(compaction)),
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
        if init.model.is_some() {
            self.model.clone_from(&init.model);
        }
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
        self.count_rest(result, emit);
        // The CLI writes the numbers that it read; what the model sent has all digits.
        let structured_output = result.structured_output.as_deref();
        let structured_output = structured_output.map(|json| self.main.written_answer(json).unwrap_or(json));
        let state = ending::TurnState {
            structured: self.options.structured,
            structured_output,
            max_tokens: self.options.max_tokens,
            was_interrupted: self.was_interrupted,
            error_frame: self.error_frame.as_ref(),
            stop_reason: self.main.last_stop_reason(),
        };
        let ending = ending::classify(result, &state);
        self.begin_turn();
        ending
    }

    /// Emits the tokens that no message reported, and the cost.
    fn count_rest(&mut self, result: &ResultFrame, emit: &mut dyn FnMut(BackendEvent)) {
        let spent = match (&result.since_last, &result.in_process, &self.spent) {
            (Some(spent), ..) => Some(spent.clone()),
            (None, Some(now), Some(before)) => Some(now.since(before)),
            _ => None,
        };
        let tokens = std::mem::take(&mut self.tokens);
        for (model, usage) in tokens.rest(result, spent.as_ref(), self.model.as_deref()) {
            emit(BackendEvent::OtherUsage { model, usage });
        }
        // An older CLI may not know the price of a model. Only of several models there is no other price.
        let priced = result.since_last.as_ref();
        let priced = priced.or_else(|| spent.as_ref().filter(|spent| spent.0.len() > 1));
        if let Some(usd) = priced.and_then(Spending::cost_usd) {
            emit(BackendEvent::Cost { usd });
        }
        self.spent.clone_from(&result.in_process);
    }

    fn begin_turn(&mut self) {
        self.main = Scope::default();
        self.tokens = TurnTokens::default();
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
            let counted = &mut self.tokens.nested;
            scope.close(&mut |event| emit_nested(call_id, event, counted, emit));
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
            let counted = &mut self.tokens.nested;
            let scope = self.nested.entry(parent.to_owned()).or_default();
            act(scope, &self.tools, &mut |event| {
                emit_nested(parent, event, counted, emit);
            });
        } else {
            let counted = &mut self.tokens.main;
            act(&mut self.main, &self.tools, &mut |event| {
                counted.observe(&event);
                emit(event);
            });
        }
    }
}

/// Emits an event of a nested agent. Its tokens are counted with those of the turn.
fn emit_nested(
    parent: &str,
    event: BackendEvent,
    counted: &mut tokens::Counted,
    emit: &mut dyn FnMut(BackendEvent),
) {
    counted.observe(&event);
    if matches!(event, BackendEvent::Usage(_)) {
        return;
    }
    emit(BackendEvent::Nested {
        parent_call_id: parent.to_owned(),
        event: Box::new(event),
    });
}

/// Says what happened to the conversation: the model no longer knows all of it.
fn compaction_notice(compaction: &Compaction) -> BackendEvent {
    let message = match compaction {
        Compaction::Done { before, after } => {
            let size = match (before, after) {
                (Some(before), Some(after)) => format!(" ({before} tokens became {after})"),
                (Some(before), None) => format!(" ({before} tokens)"),
                (None, _) => String::new(),
            };
            format!(
                "the conversation filled the model's context, and the CLI put a summary in its place{size}"
            )
        }
        Compaction::Failed { result, error } => {
            let why = error.as_deref().unwrap_or(result);
            format!(
                "the conversation fills the model's context, and the CLI could not put a summary in its place: {why}"
            )
        }
    };
    BackendEvent::Notice { message }
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
