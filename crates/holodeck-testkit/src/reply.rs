//! Builds the scripted answer of an OpenAI-compatible server, including malformed ones.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    Gate,
    delivery::{Delivery, Ending},
};

mod message;
mod render;

use self::message::{Done, FinishReason, Form, Message};

/// The scripted answer to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    content: Content,
    delivery: Delivery,
}

/// The parts of a request that the shape of a reply depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestShape {
    pub(crate) usage_asked: bool,
    pub(crate) log_probs_asked: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Message(Box<Message>),
    Raw { content_type: String, body: Bytes },
    Flood { bytes: usize },
    Silence,
}

impl Reply {
    /// An answer of text, streamed, with usage if the request asks for it.
    pub fn text(text: impl Into<String>) -> Self {
        Self::nothing().and_text(text)
    }

    /// A message that calls one tool.
    pub fn tool_call(id: &str, name: &str, arguments: &Value) -> Self {
        Self::nothing().and_tool_call(id, name, &arguments.to_string())
    }

    /// A message without content, to build on.
    pub fn nothing() -> Self {
        Self::of(200, Content::Message(Box::default()))
    }

    /// A message that refuses.
    pub fn refusal(text: &str) -> Self {
        Self::nothing().message(|message| message.refusal = Some(text.to_owned()))
    }

    /// An error status with a JSON body.
    pub fn error(status: u16, body: &Value) -> Self {
        Self::raw(status, "application/json", body.to_string())
    }

    /// An error in OpenAI's shape.
    pub fn openai_error(status: u16, message: &str, code: Option<&str>, param: Option<&str>) -> Self {
        Self::error(
            status,
            &json!({"error": {
                "message": message,
                "type": "invalid_request_error",
                "param": param,
                "code": code,
            }}),
        )
    }

    /// A web page, as sent by a proxy or a login page.
    pub fn html(status: u16, title: &str) -> Self {
        let page = format!("<!DOCTYPE html>\n<html><head><title>{title}</title></head><body></body></html>");
        Self::raw(status, "text/html; charset=utf-8", page)
    }

    /// Any bytes.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let content_type = content_type.to_owned();
        let body = body.into();
        Self::of(status, Content::Raw { content_type, body })
    }

    /// A stream with exactly these data lines.
    pub fn events<'a>(data: impl IntoIterator<Item = &'a str>) -> Self {
        let body: String = data
            .into_iter()
            .flat_map(|data| ["data: ", data, "\n\n"])
            .collect();
        Self::raw(200, "text/event-stream", body)
    }

    /// A well-formed answer of at least this many bytes of text.
    pub fn flood(bytes: usize) -> Self {
        Self::of(200, Content::Flood { bytes })
    }

    /// Takes the request and never answers.
    pub fn hang() -> Self {
        Self::of(200, Content::Silence)
    }

    /// Adds text.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.message(|message| message.text.push_str(&text.into()))
    }

    /// Adds text in these tokens, each with its alternatives and their probabilities, which are reported if the request
    /// asks for log-probabilities.
    pub fn and_tokens<'a>(self, tokens: impl IntoIterator<Item = (&'a str, &'a [(&'a str, f64)])>) -> Self {
        self.message(|message| {
            for (token, alternatives) in tokens {
                let owned = alternatives
                    .iter()
                    .map(|(text, odds)| ((*text).to_owned(), *odds));
                message.tokens.push((token.to_owned(), owned.collect()));
                message.text.push_str(token);
            }
        })
    }

    /// Adds reasoning, in the field most servers use.
    pub fn and_reasoning(self, text: &str) -> Self {
        self.message(|message| message.reasoning.push_str(text))
    }

    /// Sets the field for reasoning.
    pub fn reasoning_field(self, name: &str) -> Self {
        self.message(|message| name.clone_into(&mut message.reasoning_field))
    }

    /// Adds a tool call whose arguments are this text, valid or not.
    pub fn and_tool_call(self, id: &str, name: &str, arguments: &str) -> Self {
        self.message(|message| {
            let call = [id, name, arguments].map(str::to_owned);
            message.tool_calls.push(call);
        })
    }

    /// Streams texts and arguments in this number of pieces each.
    pub fn in_pieces(self, pieces: usize) -> Self {
        self.message(|message| message.pieces = pieces.max(1))
    }

    /// Sets the tokens reported.
    pub fn usage(self, usage: Value) -> Self {
        self.message(|message| message.usage = Some(usage))
    }

    /// Reports no tokens, even if requested.
    pub fn without_usage(self) -> Self {
        self.message(|message| message.usage = None)
    }

    /// Sets the finish reason.
    pub fn finish_reason(self, reason: &str) -> Self {
        self.message(|message| message.finish_reason = FinishReason::Given(reason.to_owned()))
    }

    /// Ends without a finish reason.
    pub fn without_finish_reason(self) -> Self {
        self.message(|message| message.finish_reason = FinishReason::Omitted)
    }

    /// Ends without `[DONE]`.
    pub fn without_done(self) -> Self {
        self.message(|message| message.done = Done::Omitted)
    }

    /// Sets the model's name.
    pub fn model(self, name: &str) -> Self {
        self.message(|message| name.clone_into(&mut message.model))
    }

    /// Answers with one JSON object although the request streams.
    pub fn as_json(self) -> Self {
        self.message(|message| message.form = Form::Object)
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

    /// Sends the body in pieces of this number of bytes, regardless of events.
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

    /// Waits before the first byte.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delivery.before = delay;
        self
    }

    /// Waits between pieces.
    pub fn between_pieces(mut self, delay: Duration) -> Self {
        self.delivery.between = delay;
        self
    }

    /// Waits until `gate` is opened.
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.delivery.gate = Some(gate.clone());
        self
    }

    fn of(status: u16, content: Content) -> Self {
        Self {
            content,
            delivery: Delivery::with_status(status),
        }
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
