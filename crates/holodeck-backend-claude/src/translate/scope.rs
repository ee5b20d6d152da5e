use std::collections::BTreeMap;

use holodeck_backend_api::{BackendEvent, StopReason, ToolCall, ToolResult};
use serde_json::Value;

use super::message::Message;
use crate::wire::{AssistantFrame, Block, StreamEvent};

/// The CLI's own tool that takes a structured answer.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// What tools are called.
#[derive(Debug)]
pub(super) struct ToolNames {
    own_prefix: Option<String>,
    hides_structured_output: bool,
}

impl ToolNames {
    pub(super) fn new(own_server: Option<&str>, hides_structured_output: bool) -> Self {
        Self {
            own_prefix: own_server.map(|server| format!("mcp__{server}__")),
            hides_structured_output,
        }
    }

    fn shown<'a>(&self, name: &'a str) -> &'a str {
        let own = self.own_prefix.as_deref();
        own.and_then(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
    }

    fn hides(&self, name: &str) -> bool {
        self.hides_structured_output && name == STRUCTURED_OUTPUT
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
    calls: BTreeMap<String, Option<String>>,
    /// Results that came while their message was still being written.
    held: Vec<ToolResult>,
}

impl Scope {
    pub(super) fn last_stop_reason(&self) -> Option<&StopReason> {
        self.last_stop_reason.as_ref()
    }

    pub(super) fn stream(
        &mut self,
        event: &StreamEvent,
        names: &ToolNames,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
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
        names: &ToolNames,
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
        let name = match self.calls.remove(call_id) {
            Some(None) => return,
            Some(Some(name)) => name,
            None => String::new(),
        };
        let result = ToolResult {
            call_id: call_id.to_owned(),
            name,
            result: text.to_owned(),
            is_error,
            duration_ms: None,
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

    fn calls_of(&mut self, frame: &AssistantFrame, names: &ToolNames, emit: &mut dyn FnMut(BackendEvent)) {
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
        names: &ToolNames,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        if self.calls.contains_key(id) {
            return;
        }
        let shown = (!names.hides(name)).then(|| names.shown(name).to_owned());
        self.calls.insert(id.to_owned(), shown.clone());
        if let Some(name) = shown {
            emit(BackendEvent::ToolCall(ToolCall {
                name,
                arguments,
                call_id: id.to_owned(),
            }));
        }
    }
}
