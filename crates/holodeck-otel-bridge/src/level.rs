//! Model calls and tool calls of one agent.

use std::time::{Duration, Instant, SystemTime};

use holodeck_backend_api::{BackendEvent, StopFamily, StopReason, TokenUsage, ToolCall, ToolResult};
use opentelemetry::{
    Array, Context, KeyValue, StringValue, Value as Attribute,
    trace::{SpanKind, Status, TraceContextExt as _},
};
use serde_json::{Value, json};

use crate::{
    conventions::{
        CACHE_CREATION_TOKENS, CACHE_READ_TOKENS, CHAT, CONVERSATION_ID, ERROR_TYPE, EXECUTE_TOOL,
        FINISH_REASONS, INPUT_TOKENS, OPERATION_NAME, OUTPUT_MESSAGES, OUTPUT_TOKENS, RESPONSE_ID,
        RESPONSE_MODEL, TOOL_ARGUMENTS, TOOL_CALL_ID, TOOL_NAME, TOOL_RESULT, TOOL_TYPE,
    },
    running::BackendPart,
};

/// A moment on both clocks: one for timestamps, one for durations.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: SystemTime,
    steady: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            wall: SystemTime::now(),
            steady: Instant::now(),
        }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        self.steady.saturating_duration_since(earlier.steady)
    }
}

/// One agent: the running one, or one that it started.
pub(crate) struct Level {
    parent: Context,
    /// Another agent started it.
    is_nested: bool,
    /// When the current model request started.
    asked: Option<Moment>,
    message: Message,
    tools: Vec<(String, Tool)>,
}

/// The model message in progress.
#[derive(Default)]
struct Message {
    begun: bool,
    usage: Option<TokenUsage>,
    parts: Vec<Value>,
    text: String,
}

struct Tool {
    span: Context,
    name: String,
    started: Moment,
}

impl Level {
    pub(crate) fn new(parent: Context, started: Moment) -> Self {
        Self {
            parent,
            is_nested: false,
            asked: Some(started),
            message: Message::default(),
            tools: Vec::new(),
        }
    }

    /// An agent that a call started.
    pub(crate) fn nested(parent: Context, started: Moment) -> Self {
        Self {
            is_nested: true,
            ..Self::new(parent, started)
        }
    }

    /// The span of a running call.
    pub(crate) fn tool(&self, call_id: &str) -> Option<&Context> {
        let (_, tool) = self.tools.iter().find(|(id, _)| id == call_id)?;
        Some(&tool.span)
    }

    pub(crate) fn on(
        &mut self,
        running: &BackendPart,
        event: &BackendEvent,
        at: Moment,
        conversation: Option<&str>,
    ) {
        match event {
            BackendEvent::Thinking { .. } | BackendEvent::ThinkingEnd { .. } => self.begin(at),
            BackendEvent::Text { text } => {
                self.begin(at);
                if running.content.is_on() {
                    self.message.text.push_str(text);
                }
            }
            BackendEvent::ToolCall(call) => {
                self.begin(at);
                self.call(running, call, at, conversation);
            }
            BackendEvent::ToolResult(result) => self.result(running, result, at),
            BackendEvent::Usage(usage) => {
                self.begin(at);
                *self.message.usage.get_or_insert_default() += *usage;
            }
            BackendEvent::OtherUsage { model, usage } => running.used(model.as_deref(), usage),
            BackendEvent::TurnEnd {
                stop_reason,
                message_id,
                model,
            } => {
                self.begin(at);
                let mut attributes = Vec::new();
                if let Some(id) = message_id {
                    attributes.push(KeyValue::new(RESPONSE_ID, id.clone()));
                }
                let reason = StringValue::from(finish_reason(stop_reason).to_owned());
                attributes.push(KeyValue::new(
                    FINISH_REASONS,
                    Attribute::Array(Array::String(vec![reason])),
                ));
                self.end_chat(running, attributes, model.as_deref(), None, at, conversation);
            }
            // Waiting in the queue does not count as model time.
            BackendEvent::Resumed if !self.message.begun => self.asked = Some(at),
            _ => {}
        }
    }

    fn begin(&mut self, at: Moment) {
        self.asked.get_or_insert(at);
        self.message.begun = true;
    }

    fn end_chat(
        &mut self,
        running: &BackendPart,
        extra: Vec<KeyValue>,
        model: Option<&str>,
        error: Option<&str>,
        at: Moment,
        conversation: Option<&str>,
    ) {
        let started = self.asked.take().unwrap_or(at);
        let message = std::mem::take(&mut self.message);
        // A nested agent may have another model; what was asked for is known only of the running one.
        let asked = model.filter(|_| self.is_nested).unwrap_or(&running.model);
        let mut measured = running.chat(asked, model);
        if let (Some(meters), Some(usage)) = (&running.meters, &message.usage) {
            meters.used(usage, &measured);
        }
        if let Some(error) = error {
            measured.push(KeyValue::new(ERROR_TYPE, error.to_owned()));
        }
        if let Some(meters) = &running.meters {
            meters.took(at.since(&started), &measured);
        }
        let mut attributes = measured;
        attributes.extend(extra);
        attributes.extend(conversation.map(|id| KeyValue::new(CONVERSATION_ID, id.to_owned())));
        attributes.extend(message.usage.iter().flat_map(usage_attributes));
        attributes.extend(
            message
                .output(running)
                .map(|output| KeyValue::new(OUTPUT_MESSAGES, output)),
        );
        let name = format!("{CHAT} {asked}");
        let span = running.span(name, SpanKind::Client, &self.parent, started.wall, attributes);
        if let Some(error) = error {
            span.span().set_status(Status::error(error.to_owned()));
        }
        running.end(&span, at.wall);
    }

    fn call(&mut self, running: &BackendPart, call: &ToolCall, at: Moment, conversation: Option<&str>) {
        let mut attributes = vec![
            KeyValue::new(OPERATION_NAME, EXECUTE_TOOL),
            KeyValue::new(TOOL_NAME, call.name.clone()),
            KeyValue::new(TOOL_CALL_ID, call.call_id.clone()),
            KeyValue::new(TOOL_TYPE, "function"),
        ];
        attributes.extend(conversation.map(|id| KeyValue::new(CONVERSATION_ID, id.to_owned())));
        if let Some(arguments) = running.content.value(&call.arguments) {
            attributes.push(KeyValue::new(TOOL_ARGUMENTS, arguments.to_string()));
            self.message.parts.push(
                json!({"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": arguments}),
            );
        }
        let name = format!("{EXECUTE_TOOL} {}", call.name);
        let span = running.span(name, SpanKind::Internal, &self.parent, at.wall, attributes);
        let tool = Tool {
            span,
            name: call.name.clone(),
            started: at,
        };
        self.tools.push((call.call_id.clone(), tool));
    }

    fn result(&mut self, running: &BackendPart, result: &ToolResult, at: Moment) {
        let index = self.tools.iter().position(|(id, _)| *id == result.call_id);
        if let Some(index) = index {
            let (_, tool) = self.tools.remove(index);
            if let Some(text) = running.content.text(&result.result) {
                tool.span.span().set_attribute(KeyValue::new(TOOL_RESULT, text));
            }
            let took = result.duration_ms.map(Duration::from_millis);
            tool.end(running, result.is_error.then_some("tool_error"), took, at);
        }
        // The model is called again once the last tool has answered.
        if self.tools.is_empty() && !self.message.begun {
            self.asked = Some(at);
        }
    }

    /// Ends all open spans.
    pub(crate) fn close(
        &mut self,
        running: &BackendPart,
        error: Option<&str>,
        at: Moment,
        conversation: Option<&str>,
    ) {
        for (_, tool) in std::mem::take(&mut self.tools) {
            tool.end(running, error, None, at);
        }
        let failed_before_a_word = error.is_some() && self.asked.is_some();
        if self.message.begun || failed_before_a_word {
            self.end_chat(running, Vec::new(), None, error, at, conversation);
        }
    }
}

impl BackendPart {
    /// Attributes of a model call.
    fn chat(&self, asked: &str, answered: Option<&str>) -> Vec<KeyValue> {
        let mut attributes = self.identity_of(asked);
        attributes.push(KeyValue::new(OPERATION_NAME, CHAT));
        if let Some(model) = answered {
            attributes.push(KeyValue::new(RESPONSE_MODEL, model.to_owned()));
        }
        attributes
    }

    /// Counts tokens of calls that have no span of their own.
    fn used(&self, model: Option<&str>, usage: &TokenUsage) {
        if let Some(meters) = &self.meters {
            meters.used(usage, &self.chat(model.unwrap_or(&self.model), model));
        }
    }
}

impl Message {
    fn output(self, running: &BackendPart) -> Option<String> {
        let text = running.content.text(&self.text)?;
        let mut parts = self.parts;
        if !text.is_empty() {
            parts.insert(0, json!({"type": "text", "content": text}));
        }
        Some(json!([{"role": "assistant", "parts": parts}]).to_string())
    }
}

impl Tool {
    fn end(self, running: &BackendPart, error: Option<&str>, took: Option<Duration>, at: Moment) {
        let mut measured = running.identity();
        measured.push(KeyValue::new(OPERATION_NAME, EXECUTE_TOOL));
        measured.push(KeyValue::new(TOOL_NAME, self.name));
        if let Some(error) = error {
            let span = self.span.span();
            span.set_attribute(KeyValue::new(ERROR_TYPE, error.to_owned()));
            span.set_status(Status::error(error.to_owned()));
            measured.push(KeyValue::new(ERROR_TYPE, error.to_owned()));
        }
        if let Some(meters) = &running.meters {
            meters.took(took.unwrap_or_else(|| at.since(&self.started)), &measured);
        }
        running.end(&self.span, at.wall);
    }
}

pub(crate) fn usage_attributes(usage: &TokenUsage) -> Vec<KeyValue> {
    let count = |name, count: u64| KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX));
    let mut attributes = vec![
        count(INPUT_TOKENS, usage.prompt_tokens),
        count(OUTPUT_TOKENS, usage.completion_tokens),
    ];
    if usage.cache_read_tokens > 0 {
        attributes.push(count(CACHE_READ_TOKENS, usage.cache_read_tokens));
    }
    if usage.cache_creation_tokens > 0 {
        attributes.push(count(CACHE_CREATION_TOKENS, usage.cache_creation_tokens));
    }
    attributes
}

fn finish_reason(reason: &StopReason) -> &str {
    match reason.family() {
        StopFamily::End => "stop",
        StopFamily::Calls => "tool_call",
        StopFamily::Truncated => "length",
        StopFamily::Refusal => "content_filter",
        StopFamily::Failure | StopFamily::Unknown => reason.as_str(),
    }
}
