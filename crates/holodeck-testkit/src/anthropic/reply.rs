//! Builds the scripted answer to one request, including errors, gates and cuts.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::message::{Block, Break, Message, StopReason};
use crate::{
    Gate,
    delivery::{Delivery, Ending, Rendered},
};

/// The scripted answer to one request.
///
/// Events are counted as they are sent: `message_start`, then for each block its start, its pieces and its stop, then
/// `message_delta` and `message_stop`.
#[derive(Clone, Debug)]
pub struct AnthropicReply {
    content: Content,
    delivery: Delivery,
}

#[derive(Clone, Debug)]
enum Content {
    Message(Message),
    Raw { content_type: String, body: Bytes },
    Silence,
}

/// The parts of a request that the shape of a reply depends on.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) model: String,
    pub(super) form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Stream,
    Object,
}

impl AnthropicReply {
    /// An answer of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::nothing().and_text(text)
    }

    /// A message that calls one tool.
    pub fn tool_use(name: &str, input: &Value) -> Self {
        Self::nothing().and_tool_use(name, input)
    }

    /// A message without content, to build on.
    pub fn nothing() -> Self {
        Self::of(200, Content::Message(Message::default()))
    }

    /// An error in Anthropic's shape, of the type that belongs to the status.
    pub fn error(status: u16, message: &str) -> Self {
        let body = error_body(error_type(status), message);
        Self::raw(status, "application/json", body.to_string())
    }

    /// Any bytes.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let content_type = content_type.to_owned();
        let body = body.into();
        Self::of(status, Content::Raw { content_type, body })
    }

    /// Takes the request and never answers.
    pub fn hang() -> Self {
        Self::of(200, Content::Silence)
    }

    /// Adds a block of text.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and(Block::Text(text.into()))
    }

    /// Adds a block of thinking.
    pub fn and_thinking(self, thinking: &str, signature: &str) -> Self {
        self.and(Block::Thinking {
            thinking: thinking.to_owned(),
            signature: signature.to_owned(),
        })
    }

    /// Adds a tool call under an id of its own.
    pub fn and_tool_use(self, name: &str, input: &Value) -> Self {
        self.and(Block::ToolUse {
            id: None,
            name: name.to_owned(),
            input: input.to_string(),
        })
    }

    /// Adds a tool call under this id, whose input is this text, valid or not.
    pub fn and_tool_use_as(self, id: &str, name: &str, input: &str) -> Self {
        self.and(Block::ToolUse {
            id: Some(id.to_owned()),
            name: name.to_owned(),
            input: input.to_owned(),
        })
    }

    /// Adds any block, sent whole: the result of a server tool, redacted thinking, an unknown type.
    pub fn and_block(self, block: &Value) -> Self {
        self.and(Block::Whole(block.clone()))
    }

    /// Streams texts and inputs in this number of pieces each.
    pub fn in_pieces(self, pieces: usize) -> Self {
        self.message(|message| message.pieces = pieces.max(1))
    }

    /// Sets the stop reason; the default is `tool_use` after a tool call and `end_turn` otherwise.
    pub fn stop_reason(self, reason: &str) -> Self {
        self.message(|message| message.stop = StopReason::Given(reason.to_owned()))
    }

    /// Stops at a stop sequence.
    pub fn stop_sequence(self, sequence: &str) -> Self {
        self.message(|message| message.stop = StopReason::Sequence(sequence.to_owned()))
    }

    /// Sets the tokens reported.
    pub fn tokens(self, input: u64, output: u64) -> Self {
        self.message(|message| {
            message.tokens.input = input;
            message.tokens.output = output;
        })
    }

    /// Sets the tokens read from and written to the cache.
    pub fn cached(self, read: u64, written: u64) -> Self {
        self.message(|message| {
            message.tokens.cache_read = read;
            message.tokens.cache_written = written;
        })
    }

    /// Sets the model's name; the default is the requested one.
    pub fn model(self, name: &str) -> Self {
        self.message(|message| message.model = Some(name.to_owned()))
    }

    /// Ends the stream with an `error` event after this number of events.
    pub fn fails_after(self, events: usize, error_type: &str, text: &str) -> Self {
        let error = error_body(error_type, text);
        self.message(|message| message.breaks = Some(Break { events, error }))
    }

    /// Ends the body as if it were complete after this number of events.
    pub fn stop_after(self, events: usize) -> Self {
        self.ending(Ending::Stop(events))
    }

    /// Breaks the connection after this number of events.
    pub fn cut_after(self, events: usize) -> Self {
        self.ending(Ending::Cut(events))
    }

    /// Goes silent after this number of events and keeps the connection.
    pub fn hang_after(self, events: usize) -> Self {
        self.ending(Ending::Hang(events))
    }

    /// Waits until `gate` is opened after this number of events.
    pub fn gated_after(mut self, events: usize, gate: &Gate) -> Self {
        self.delivery.gates.push((events, gate.clone()));
        self
    }

    /// Waits until `gate` is opened, before the status.
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.delivery.gate = Some(gate.clone());
        self
    }

    /// Sends the body in pieces of this number of bytes, regardless of events. Gates then count these pieces.
    pub fn split_every(mut self, bytes: usize) -> Self {
        self.delivery.split_every = Some(bytes.max(1));
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.delivery.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets `retry-after`.
    pub fn retry_after(self, seconds: u64) -> Self {
        self.header("retry-after", &seconds.to_string())
    }

    /// Waits before the first byte: for benches; tests use a gate.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delivery.before = delay;
        self
    }

    /// Waits between events: for benches; tests use gates.
    pub fn between_pieces(mut self, delay: Duration) -> Self {
        self.delivery.between = delay;
        self
    }

    pub(super) fn render(&self, shape: &Shape) -> Rendered {
        match &self.content {
            Content::Message(message) if shape.form == Form::Object => {
                let object = message.object(&shape.model).to_string();
                self.delivery.events("application/json", vec![object.into()])
            }
            Content::Message(message) => {
                let events = message.events(&shape.model).into_iter();
                let events = events.map(|event| {
                    let kind = event["type"].as_str().unwrap_or_default();
                    format!("event: {kind}\ndata: {event}\n\n").into()
                });
                self.delivery
                    .events("text/event-stream; charset=utf-8", events.collect())
            }
            Content::Raw { content_type, body } => self.delivery.events(content_type, vec![body.clone()]),
            Content::Silence => self.delivery.never(),
        }
    }

    fn of(status: u16, content: Content) -> Self {
        Self {
            content,
            delivery: Delivery::with_status(status),
        }
    }

    fn and(self, block: Block) -> Self {
        self.message(|message| message.blocks.push(block))
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.delivery.ending = ending;
        self
    }

    /// Changes the message; other replies stay unchanged.
    fn message(mut self, change: impl FnOnce(&mut Message)) -> Self {
        if let Content::Message(message) = &mut self.content {
            change(message);
        }
        self
    }
}

fn error_body(error_type: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": error_type, "message": message}})
}

fn error_type(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}
