//! Renders scripted messages as events or as one object, as the real API does.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::delivery::pieces;

/// An assistant message and how it is streamed.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) blocks: Vec<Block>,
    pub(super) pieces: usize,
    pub(super) stop: StopReason,
    pub(super) tokens: Tokens,
    pub(super) model: Option<String>,
    pub(super) breaks: Option<Break>,
}

#[derive(Clone, Debug)]
pub(super) enum Block {
    Text(String),
    Thinking {
        thinking: String,
        signature: String,
    },
    ToolUse {
        /// A new one for each rendering if unset.
        id: Option<String>,
        name: String,
        input: String,
    },
    Whole(Value),
}

#[derive(Clone, Debug)]
pub(super) enum StopReason {
    Fitting,
    Given(String),
    Sequence(String),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_written: u64,
}

/// An error in the midst of a stream.
#[derive(Clone, Debug)]
pub(super) struct Break {
    pub(super) events: usize,
    pub(super) error: Value,
}

impl Default for Message {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            pieces: 1,
            stop: StopReason::Fitting,
            tokens: Tokens {
                input: 10,
                output: 5,
                cache_read: 0,
                cache_written: 0,
            },
            model: None,
            breaks: None,
        }
    }
}

impl Message {
    /// The data of each event of a stream, in order.
    pub(super) fn events(&self, asked: &str) -> Vec<Value> {
        let mut start = self.head(asked);
        start["content"] = json!([]);
        start["stop_reason"] = Value::Null;
        start["stop_sequence"] = Value::Null;
        // Values at the start of a stream, before the output is known.
        start["usage"] = self.tokens.usage(1);
        let mut events = vec![json!({"type": "message_start", "message": start})];
        for (index, block) in self.blocks.iter().enumerate() {
            let (begin, deltas) = block.streamed(self.pieces);
            events.push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
            let deltas = deltas.into_iter();
            events.extend(
                deltas.map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
            );
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        let (reason, sequence) = self.stopped();
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": self.tokens.usage(self.tokens.output),
        }));
        events.push(json!({"type": "message_stop"}));
        if let Some(Break { events: sent, error }) = &self.breaks {
            events.truncate(*sent);
            events.push(error.clone());
        }
        events
    }

    /// The message as one object.
    pub(super) fn object(&self, asked: &str) -> Value {
        let mut object = self.head(asked);
        let (reason, sequence) = self.stopped();
        object["content"] = self.blocks.iter().map(Block::whole).collect();
        object["stop_reason"] = json!(reason);
        object["stop_sequence"] = json!(sequence);
        object["usage"] = self.tokens.usage(self.tokens.output);
        object
    }

    fn head(&self, asked: &str) -> Value {
        let model = self.model.as_deref().unwrap_or(asked);
        json!({"id": new_id("msg_"), "type": "message", "role": "assistant", "model": model})
    }

    fn stopped(&self) -> (&str, Option<&str>) {
        let calls = self
            .blocks
            .iter()
            .any(|block| matches!(block, Block::ToolUse { .. }));
        match &self.stop {
            StopReason::Given(reason) => (reason, None),
            StopReason::Sequence(sequence) => ("stop_sequence", Some(sequence)),
            StopReason::Fitting if calls => ("tool_use", None),
            StopReason::Fitting => ("end_turn", None),
        }
    }
}

impl Block {
    /// The start of a block, and the deltas that follow.
    fn streamed(&self, count: usize) -> (Value, Vec<Value>) {
        match self {
            Self::Text(text) => {
                let deltas = pieces(text, count).into_iter();
                (
                    json!({"type": "text", "text": ""}),
                    deltas
                        .map(|piece| json!({"type": "text_delta", "text": piece}))
                        .collect(),
                )
            }
            Self::Thinking { thinking, signature } => {
                let deltas = pieces(thinking, count).into_iter();
                let deltas = deltas.map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
                let seal = json!({"type": "signature_delta", "signature": signature});
                (
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    deltas.chain([seal]).collect(),
                )
            }
            Self::ToolUse { id, name, input } => {
                let deltas = pieces(input, count).into_iter();
                (
                    json!({"type": "tool_use", "id": id_or_new(id.as_deref()), "name": name, "input": {}}),
                    deltas
                        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                        .collect(),
                )
            }
            Self::Whole(block) => (block.clone(), Vec::new()),
        }
    }

    fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking { thinking, signature } => {
                json!({"type": "thinking", "thinking": thinking, "signature": signature})
            }
            Self::ToolUse { id, name, input } => {
                let input: Value = serde_json::from_str(input).unwrap_or_default();
                json!({"type": "tool_use", "id": id_or_new(id.as_deref()), "name": name, "input": input})
            }
            Self::Whole(block) => block.clone(),
        }
    }
}

impl Tokens {
    fn usage(self, output: u64) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.cache_written,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": output,
        })
    }
}

fn id_or_new(id: Option<&str>) -> String {
    id.map_or_else(|| new_id("toolu_"), str::to_owned)
}

/// An id that is unique in this process.
fn new_id(prefix: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    format!("{prefix}{number:024}")
}
