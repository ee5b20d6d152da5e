//! Reads the pieces of a streamed model message, which are events of Anthropic's Messages API.

use serde_json::{Map, Value};

use super::{Block, WireUsage, block, fields::Fields as _, outcome};

/// A piece of a streamed model message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamFrame {
    /// The call that started this frame's agent; `None` for the main agent.
    pub(crate) parent: Option<String>,
    pub(crate) event: StreamEvent,
}

/// An event of the Messages API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamEvent {
    MessageStart {
        message_id: Option<String>,
        model: Option<String>,
        usage: Option<WireUsage>,
    },
    BlockStart {
        index: u64,
        block: Block,
    },
    BlockDelta {
        index: u64,
        delta: Delta,
    },
    BlockStop {
        index: u64,
    },
    MessageDelta {
        stop_reason: Option<String>,
        usage: Option<WireUsage>,
    },
    MessageStop,
    Other {
        kind: String,
    },
}

/// A continuation of a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Delta {
    Text(String),
    Thinking(String),
    Signature(String),
    InputJson(String),
    Other { kind: String },
}

pub(super) fn read(mut body: Map<String, Value>) -> StreamFrame {
    StreamFrame {
        parent: body.take_text("parent_tool_use_id"),
        event: event(body.take_map("event").unwrap_or_default()),
    }
}

fn event(mut body: Map<String, Value>) -> StreamEvent {
    let kind = body.take_text("type").unwrap_or_default();
    let index = body.number("index").unwrap_or_default();
    match kind.as_str() {
        "message_start" => {
            let mut message = body.take_map("message").unwrap_or_default();
            StreamEvent::MessageStart {
                message_id: message.take_text("id"),
                model: message.take_text("model"),
                usage: message.take_map("usage").as_ref().map(outcome::usage),
            }
        }
        "content_block_start" => StreamEvent::BlockStart {
            index,
            block: block::block(body.take_map("content_block").unwrap_or_default()),
        },
        "content_block_delta" => StreamEvent::BlockDelta {
            index,
            delta: delta(body.take_map("delta").unwrap_or_default()),
        },
        "content_block_stop" => StreamEvent::BlockStop { index },
        "message_delta" => {
            let mut delta = body.take_map("delta").unwrap_or_default();
            StreamEvent::MessageDelta {
                stop_reason: delta.take_text("stop_reason"),
                usage: body.take_map("usage").as_ref().map(outcome::usage),
            }
        }
        "message_stop" => StreamEvent::MessageStop,
        _ => StreamEvent::Other { kind },
    }
}

fn delta(mut body: Map<String, Value>) -> Delta {
    let kind = body.take_text("type").unwrap_or_default();
    match kind.as_str() {
        "text_delta" => Delta::Text(body.take_text("text").unwrap_or_default()),
        "thinking_delta" => Delta::Thinking(body.take_text("thinking").unwrap_or_default()),
        "signature_delta" => Delta::Signature(body.take_text("signature").unwrap_or_default()),
        "input_json_delta" => Delta::InputJson(body.take_text("partial_json").unwrap_or_default()),
        _ => Delta::Other { kind },
    }
}
