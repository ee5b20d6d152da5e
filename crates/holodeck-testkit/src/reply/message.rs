//! Renders scripted messages as stream chunks or as one object, as servers do.

use serde_json::{Value, json};

use super::RequestShape;
use crate::delivery::pieces;

/// An assistant message and its wire format.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) reasoning: String,
    pub(super) reasoning_field: String,
    pub(super) text: String,
    /// The tokens of the text, each with its alternatives and their probabilities.
    pub(super) tokens: Vec<(String, Vec<(String, f64)>)>,
    pub(super) refusal: Option<String>,
    /// Id, name, arguments.
    pub(super) tool_calls: Vec<[String; 3]>,
    pub(super) pieces: usize,
    pub(super) usage: Option<Value>,
    pub(super) finish_reason: FinishReason,
    pub(super) done: Done,
    pub(super) model: String,
    pub(super) form: Form,
}

#[derive(Clone, Debug)]
pub(super) enum FinishReason {
    Fitting,
    Given(String),
    Omitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Sent,
    Omitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Stream,
    Object,
}

const ID: &str = "chatcmpl-1";

impl Default for Message {
    fn default() -> Self {
        Self {
            reasoning: String::new(),
            reasoning_field: "reasoning_content".to_owned(),
            text: String::new(),
            tokens: Vec::new(),
            refusal: None,
            tool_calls: Vec::new(),
            pieces: 1,
            usage: Some(json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})),
            finish_reason: FinishReason::Fitting,
            done: Done::Sent,
            model: "scripted-1".to_owned(),
            form: Form::Stream,
        }
    }
}

impl Message {
    /// The data of each event, in order.
    pub(super) fn events(&self, shape: RequestShape) -> Vec<String> {
        let mut events = vec![self.chunk(&json!({"role": "assistant", "content": ""}), &Value::Null)];
        let mut push = |delta: Value| events.push(self.chunk(&delta, &Value::Null));
        for piece in pieces(&self.reasoning, self.pieces) {
            push(json!({ self.reasoning_field.as_str(): piece }));
        }
        if shape.log_probs_asked && !self.tokens.is_empty() {
            for token in &self.tokens {
                let logprobs = json!({"content": [log_probs(token)], "refusal": null});
                events.push(self.chunk_with(&json!({"content": token.0}), &Value::Null, &logprobs));
            }
        } else {
            for piece in pieces(&self.text, self.pieces) {
                events.push(self.chunk(&json!({ "content": piece }), &Value::Null));
            }
        }
        let mut push = |delta: Value| events.push(self.chunk(&delta, &Value::Null));
        for piece in pieces(self.refusal.as_deref().unwrap_or_default(), self.pieces) {
            push(json!({ "refusal": piece }));
        }
        for (index, [id, name, arguments]) in self.tool_calls.iter().enumerate() {
            push(json!({"tool_calls": [{
                "index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": ""},
            }]}));
            for piece in pieces(arguments, self.pieces) {
                push(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
            }
        }
        if let Some(reason) = self.reason() {
            events.push(self.chunk(&json!({}), &json!(reason)));
        }
        if let (Some(usage), true) = (&self.usage, shape.usage_asked) {
            events.push(
                json!({
                    "id": ID, "object": "chat.completion.chunk", "created": 1, "model": self.model,
                    "choices": [], "usage": usage,
                })
                .to_string(),
            );
        }
        if self.done == Done::Sent {
            events.push("[DONE]".to_owned());
        }
        events
    }

    /// The message as one object.
    pub(super) fn object(&self, shape: RequestShape) -> String {
        let calls: Vec<Value> = self
            .tool_calls
            .iter()
            .map(|[id, name, arguments]| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let mut message = json!({"role": "assistant", "content": self.text, "refusal": self.refusal});
        if !self.reasoning.is_empty() {
            message[self.reasoning_field.as_str()] = json!(self.reasoning);
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        let reported = shape.log_probs_asked && !self.tokens.is_empty();
        let logprobs = reported.then(|| {
            let tokens: Vec<Value> = self.tokens.iter().map(log_probs).collect();
            json!({"content": tokens, "refusal": null})
        });
        json!({
            "id": ID, "object": "chat.completion", "created": 1, "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": self.reason()}],
            "usage": self.usage,
        })
        .to_string()
    }

    fn chunk(&self, delta: &Value, finish_reason: &Value) -> String {
        self.chunk_with(delta, finish_reason, &Value::Null)
    }

    fn chunk_with(&self, delta: &Value, finish_reason: &Value, logprobs: &Value) -> String {
        json!({
            "id": ID, "object": "chat.completion.chunk", "created": 1, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}],
        })
        .to_string()
    }

    fn reason(&self) -> Option<&str> {
        match &self.finish_reason {
            FinishReason::Given(reason) => Some(reason),
            FinishReason::Omitted => None,
            FinishReason::Fitting if self.tool_calls.is_empty() => Some("stop"),
            FinishReason::Fitting => Some("tool_calls"),
        }
    }
}

/// A token as the wire shows it.
fn log_probs((token, alternatives): &(String, Vec<(String, f64)>)) -> Value {
    let entry =
        |token: &str, odds: f64| json!({"token": token, "logprob": odds.ln(), "bytes": token.as_bytes()});
    let own = alternatives.iter().find(|(text, _)| text == token);
    let mut shown = entry(token, own.map_or(1.0, |(_, odds)| *odds));
    shown["top_logprobs"] = alternatives
        .iter()
        .map(|(text, odds)| entry(text, *odds))
        .collect();
    shown
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn usage_comes_only_when_asked_for() {
        let message = Message::default();
        let shape = |usage_asked| RequestShape {
            usage_asked,
            log_probs_asked: false,
        };
        let with = message.events(shape(true));
        let without = message.events(shape(false));
        assert_eq!(with.len(), without.len() + 1);
    }
}
