use std::collections::BTreeMap;

use holodeck_backend_api::{
    BackendEvent, CallDetails, CallRefusal, Passage, SideEffects, StopReason, ToolCall, ToolIdentity,
    ToolKind, ToolNames, ToolResult,
};
use holodeck_model::{ClaudeConfig, ToolOrigin};
use serde_json::Value;

use super::message::Message;
use crate::wire::{AssistantFrame, Block, StreamEvent};

/// The CLI's own tool that takes a structured answer.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// What tools are called, and which of them is hidden.
#[derive(Debug)]
pub(super) struct Shown {
    names: ToolNames,
    hides_structured_output: bool,
}

impl Shown {
    pub(super) fn new(names: ToolNames, hides_structured_output: bool) -> Self {
        Self {
            names,
            hides_structured_output,
        }
    }

    fn identify(&self, name: &str) -> Option<ToolIdentity> {
        self.names.identify(name)
    }

    fn hides(&self, name: &str) -> bool {
        self.hides_structured_output && name == STRUCTURED_OUTPUT
    }
}

/// A call that waits for its result.
#[derive(Clone, Debug)]
struct Called {
    name: String,
    details: CallDetails,
}

impl Called {
    fn of(name: &str, tool: Option<ToolIdentity>) -> Self {
        let Some(tool) = tool else {
            return Self {
                name: name.to_owned(),
                details: CallDetails::default(),
            };
        };
        let changes = tool.origin != ToolOrigin::BuiltIn || ClaudeConfig::may_change_something(name);
        Self {
            name: tool.shown_to_model,
            details: CallDetails {
                kind: Some(tool.kind),
                side_effects: Some(if changes {
                    SideEffects::Possible
                } else {
                    SideEffects::None
                }),
                ..CallDetails::default()
            },
        }
    }
}

/// Why a call did not reach its tool, as the CLI says it.
fn refusal(text: &str) -> Option<CallRefusal> {
    let error = text.strip_prefix("<tool_use_error>").unwrap_or(text);
    let error = error.strip_prefix("Error: ").unwrap_or(error);
    if error.starts_with("No such tool available") {
        Some(CallRefusal::Unknown)
    } else if error.starts_with("InputValidationError") || error.starts_with("MCP error -32602") {
        Some(CallRefusal::InvalidArguments)
    } else {
        None
    }
}

/// One agent: the message it writes, and the calls that wait for their results.
#[derive(Debug, Default)]
pub(super) struct Scope {
    message: Option<Message>,
    /// The message before, which late frames may still belong to.
    closed: Option<String>,
    last_stop_reason: Option<StopReason>,
    /// By id; `None` for a call that is not shown.
    calls: BTreeMap<String, Option<Called>>,
    /// Results that came while their message was still being written.
    held: Vec<ToolResult>,
}

impl Scope {
    pub(super) fn last_stop_reason(&self) -> Option<&StopReason> {
        self.last_stop_reason.as_ref()
    }

    pub(super) fn stream(&mut self, event: &StreamEvent, names: &Shown, emit: &mut dyn FnMut(BackendEvent)) {
        match event {
            StreamEvent::MessageStart {
                message_id,
                model,
                usage,
            } => {
                self.close_for_next(emit);
                let mut message = Message::new(message_id.clone(), model.clone());
                message.streamed();
                message.tell_usage(*usage);
                self.message = Some(message);
            }
            StreamEvent::BlockStart { block, .. } => {
                if let Some(message) = &mut self.message {
                    message.start_block(block, emit);
                }
            }
            StreamEvent::BlockDelta { delta, .. } => {
                if let Some(message) = &mut self.message {
                    message.delta(delta, emit);
                }
            }
            StreamEvent::BlockStop { .. } => {
                if let Some(message) = &mut self.message {
                    message.stop_block(emit);
                }
            }
            StreamEvent::MessageDelta { stop_reason, usage } => {
                if let Some(message) = &mut self.message {
                    message.tell_stop_reason(stop_reason.as_deref());
                    message.tell_usage(*usage);
                }
            }
            StreamEvent::MessageStop => {
                let mut calls = Vec::new();
                if let Some(message) = &mut self.message {
                    message.stop();
                    message.end_thinking(emit);
                    calls = message.unseen_calls();
                }
                for (id, name, input) in calls {
                    self.call(&id, &name, input, names, emit);
                }
                self.close(emit);
            }
            StreamEvent::Other { .. } => {}
        }
    }

    /// A frame holds one block of a message; all frames of a message have its id.
    pub(super) fn assistant(
        &mut self,
        frame: &AssistantFrame,
        names: &Shown,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        let is_open = match &self.message {
            Some(message) => message.id == frame.message_id,
            None => false,
        };
        if !is_open {
            if frame.message_id.is_some() && frame.message_id == self.closed {
                // The whole message has been told; a repeated block adds nothing, an unknown call does.
                self.calls_of(frame, names, emit);
                return;
            }
            self.close_for_next(emit);
        }
        let message = self
            .message
            .get_or_insert_with(|| Message::new(frame.message_id.clone(), frame.model.clone()));
        message.tell_frame(frame);
        for block in &frame.blocks {
            match block {
                Block::Text(text) => message.text(text, emit),
                Block::Thinking { text, signature } => message.thinking(text, signature.as_deref(), emit),
                Block::ToolUse { id, .. } => message.tool_use(id),
                _ => {}
            }
        }
        self.calls_of(frame, names, emit);
    }

    pub(super) fn tool_result(
        &mut self,
        call_id: &str,
        text: &str,
        is_error: bool,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        let (name, mut details) = match self.calls.remove(call_id) {
            Some(None) => return,
            Some(Some(called)) => (called.name, called.details),
            None => (String::new(), CallDetails::default()),
        };
        if is_error {
            details.refused = refusal(text);
        } else if details.kind == Some(ToolKind::Retrieval) {
            details.passages = vec![Passage::of(text)];
        }
        let result = ToolResult {
            call_id: call_id.to_owned(),
            name,
            result: text.to_owned(),
            is_error,
            duration_ms: None,
            details,
        };
        // A tool starts when its block is complete, and may be done before the message is.
        if self.message.is_some() {
            self.held.push(result);
        } else {
            emit(BackendEvent::ToolResult(result));
        }
    }

    /// Ends the message that is open, then tells the results that waited for it.
    pub(super) fn close(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        if let Some(message) = self.message.take() {
            self.finish(message, true, emit);
        }
    }

    /// As [`close`](Self::close), because another message begins: the CLI gave an unfinished one up and does not
    /// count its tokens.
    fn close_for_next(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        if let Some(message) = self.message.take() {
            let is_counted = !message.is_cut();
            self.finish(message, is_counted, emit);
        }
    }

    fn finish(&mut self, mut message: Message, is_counted: bool, emit: &mut dyn FnMut(BackendEvent)) {
        message.end_thinking(emit);
        if let Some(usage) = message.usage().filter(|_| is_counted) {
            emit(BackendEvent::Usage(usage));
        }
        let stop_reason = message.stop_reason();
        self.last_stop_reason = Some(stop_reason.clone());
        self.closed.clone_from(&message.id);
        emit(BackendEvent::TurnEnd {
            stop_reason,
            message_id: message.id,
            model: message.model,
        });
        for result in self.held.drain(..) {
            emit(BackendEvent::ToolResult(result));
        }
    }

    fn calls_of(&mut self, frame: &AssistantFrame, names: &Shown, emit: &mut dyn FnMut(BackendEvent)) {
        for block in &frame.blocks {
            if let Block::ToolUse { id, name, input } = block {
                self.call(id, name, input.clone(), names, emit);
            }
        }
    }

    fn call(
        &mut self,
        id: &str,
        name: &str,
        arguments: Value,
        names: &Shown,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        if self.calls.contains_key(id) {
            return;
        }
        let called = (!names.hides(name)).then(|| Called::of(name, names.identify(name)));
        self.calls.insert(id.to_owned(), called.clone());
        if let Some(called) = called {
            emit(BackendEvent::ToolCall(ToolCall {
                name: called.name,
                arguments,
                call_id: id.to_owned(),
            }));
        }
    }
}
