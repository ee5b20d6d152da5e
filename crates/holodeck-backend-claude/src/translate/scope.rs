//! Translates the messages and calls of one agent, the main one or a subagent, into events in a valid order.

use std::collections::BTreeMap;

use holodeck_backend_api::{
    BackendEvent, CallDetails, CallRefusal, Passage, SideEffects, StopReason, ToolCall, ToolIdentity,
    ToolKind, ToolNames, ToolResult,
};
use holodeck_model::{ClaudeConfig, JSON_LEVELS, ToolOrigin, json_levels, mend_json, tighten_json};
use serde_json::{Map, Value};

use super::message::Message;
use crate::wire::{AssistantFrame, Block, StreamEvent};

/// The CLI's own tool that takes a structured answer.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// The names of tools in events, and which tool is hidden.
#[derive(Debug)]
pub(super) struct VisibleTools {
    names: ToolNames,
    /// The tools of external servers that the CLI offers to the model.
    external: Vec<String>,
    hides_structured_output: bool,
}

impl VisibleTools {
    pub(super) fn new(names: ToolNames, hides_structured_output: bool) -> Self {
        Self {
            names,
            external: Vec::new(),
            hides_structured_output,
        }
    }

    /// Sets the tools that the CLI lists.
    pub(super) fn offer(&mut self, tools: &[String]) {
        let is_external = |tool: &&String| {
            let tool = self.names.identify(tool);
            tool.is_some_and(|tool| tool.origin == ToolOrigin::External)
        };
        self.external = tools.iter().filter(is_external).cloned().collect();
    }

    fn open_call(&self, name: &str) -> OpenCall {
        let tool = self.identify(name);
        let external = self.external.iter().map(String::as_str);
        let namesakes = tool.as_ref().map(|tool| self.names.namesakes(tool, external));
        let mut call = OpenCall::new(name, tool);
        call.details.namesakes = namesakes.unwrap_or_default();
        call
    }

    fn identify(&self, name: &str) -> Option<ToolIdentity> {
        self.names.identify(name)
    }

    fn hides(&self, name: &str) -> bool {
        self.hides_structured_output && name == STRUCTURED_OUTPUT
    }
}

/// A call without a result.
#[derive(Clone, Debug)]
struct OpenCall {
    name: String,
    details: CallDetails,
}

impl OpenCall {
    fn new(name: &str, tool: Option<ToolIdentity>) -> Self {
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

/// How the CLI begins the result of a call that a rule for its path denies, before it asks about the call.
const DENIED: [&str; 2] = [
    "File is in a directory that is denied by your permission settings",
    "File is covered by a",
];

/// Why a call did not reach its tool, from the CLI's error text.
fn refusal(text: &str) -> Option<CallRefusal> {
    let error = text.strip_prefix("<tool_use_error>").unwrap_or(text);
    let error = error.strip_prefix("Error: ").unwrap_or(error);
    if error.starts_with("No such tool available") {
        Some(CallRefusal::Unknown)
    } else if error.starts_with("InputValidationError") || error.starts_with("MCP error -32602") {
        Some(CallRefusal::InvalidArguments)
    } else if DENIED.iter().any(|start| error.starts_with(start)) {
        Some(CallRefusal::NotAllowed)
    } else {
        None
    }
}

/// Reads JSON with raw line breaks and halves of surrogate pairs in it, as the CLI does.
fn read_leniently(json: &str) -> Option<Value> {
    let read = |json: &str| serde_json::from_str(json).ok();
    read(json)
        .or_else(|| read(&tighten_json(json)))
        .or_else(|| read(&mend_json(json.as_bytes())?))
}

/// Whether JavaScript, which reads every number as a floating-point one, reads two values as the same.
fn is_same_in_javascript(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && std::iter::zip(a, b).all(|(a, b)| is_same_in_javascript(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_same = |(name, a)| b.get(name).is_some_and(|b| is_same_in_javascript(a, b));
            a.len() == b.len() && a.iter().all(is_same)
        }
        (a, b) => a == b,
    }
}

/// One agent: its current message and its open calls.
#[derive(Debug, Default)]
pub(super) struct Scope {
    message: Option<Message>,
    /// The id of the previous message, to which late frames may belong.
    previous_id: Option<String>,
    last_stop_reason: Option<StopReason>,
    /// By id; `None` for a hidden call.
    calls: BTreeMap<String, Option<OpenCall>>,
    /// Results that arrived before the end of their message.
    early_results: Vec<ToolResult>,
    /// The structured answers as the model wrote them.
    answers: Vec<String>,
}

impl Scope {
    pub(super) fn last_stop_reason(&self) -> Option<&StopReason> {
        self.last_stop_reason.as_ref()
    }

    /// The last structured answer that the CLI may have read as `json`, as the model wrote it.
    pub(super) fn written_answer(&self, json: &str) -> Option<&str> {
        let read = read_leniently(json)?;
        let is_read = |written: &&String| {
            read_leniently(written).is_some_and(|written| is_same_in_javascript(&written, &read))
        };
        self.answers.iter().rfind(is_read).map(String::as_str)
    }

    pub(super) fn stream(
        &mut self,
        event: &StreamEvent,
        tools: &VisibleTools,
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
                message.mark_streamed();
                message.update_usage(*usage);
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
                    message.update_stop_reason(stop_reason.as_deref());
                    message.update_usage(*usage);
                }
            }
            StreamEvent::MessageStop => {
                let mut calls = Vec::new();
                if let Some(message) = &mut self.message {
                    message.mark_stopped();
                    message.end_thinking(emit);
                    calls = message.take_streamed_calls();
                }
                for (id, name, json) in calls {
                    let input = match json.as_str() {
                        "" => Some(Value::Object(Map::new())),
                        json => serde_json::from_str(json).ok(),
                    };
                    if tools.hides(&name) {
                        self.answers.push(json);
                    }
                    if let Some(input) = input {
                        self.emit_call(&id, &name, input, tools, emit);
                    }
                }
                self.close(emit);
            }
            StreamEvent::Other { .. } => {}
        }
    }

    /// Translates a frame, which contains one block of a message; all frames of a message have its id.
    pub(super) fn assistant(
        &mut self,
        frame: &AssistantFrame,
        tools: &VisibleTools,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        let is_open = match &self.message {
            Some(message) => message.id == frame.message_id,
            None => false,
        };
        if !is_open {
            if frame.message_id.is_some() && frame.message_id == self.previous_id {
                // The message was emitted completely; only an unknown call is new.
                self.emit_calls(frame, tools, emit);
                return;
            }
            self.close_for_next(emit);
        }
        let message = self
            .message
            .get_or_insert_with(|| Message::new(frame.message_id.clone(), frame.model.clone()));
        message.update_from_frame(frame);
        for block in &frame.blocks {
            match block {
                Block::Text(text) => message.text(text, emit),
                Block::Thinking { text, signature } => message.thinking(text, signature.as_deref(), emit),
                Block::ToolUse { id, name, .. } => {
                    let json = message.tool_use(id).filter(|_| tools.hides(name));
                    self.answers.extend(json);
                }
                _ => {}
            }
        }
        self.emit_calls(frame, tools, emit);
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
            Some(Some(call)) => (call.name, call.details),
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
        // A tool starts when its block is complete, and may finish before the message does.
        if self.message.is_some() {
            self.early_results.push(result);
        } else {
            emit(BackendEvent::ToolResult(result));
        }
    }

    /// Ends the open message, then emits the results that arrived early.
    pub(super) fn close(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        if let Some(message) = self.message.take() {
            self.finish(message, true, emit);
        }
    }

    /// Like [`close`](Self::close), but for the start of another message: the CLI gave up an unfinished message and
    /// does not count its tokens.
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
        self.previous_id.clone_from(&message.id);
        emit(BackendEvent::TurnEnd {
            stop_reason,
            message_id: message.id,
            model: message.model,
        });
        for result in self.early_results.drain(..) {
            emit(BackendEvent::ToolResult(result));
        }
    }

    fn emit_calls(
        &mut self,
        frame: &AssistantFrame,
        tools: &VisibleTools,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        for block in &frame.blocks {
            if let Block::ToolUse { id, name, input } = block {
                self.emit_call(id, name, input.clone(), tools, emit);
            }
        }
    }

    fn emit_call(
        &mut self,
        id: &str,
        name: &str,
        arguments: Value,
        tools: &VisibleTools,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        if self.calls.contains_key(id) {
            return;
        }
        let call = (!tools.hides(name)).then(|| tools.open_call(name));
        self.calls.insert(id.to_owned(), call.clone());
        if let Some(call) = call {
            emit(BackendEvent::ToolCall(ToolCall {
                name: call.name,
                // With more levels, the record of a run could not be read again.
                arguments: if json_levels(&arguments) > JSON_LEVELS {
                    Value::from(arguments.to_string())
                } else {
                    arguments
                },
                call_id: id.to_owned(),
                provider_fields: None,
            }));
        }
    }
}
