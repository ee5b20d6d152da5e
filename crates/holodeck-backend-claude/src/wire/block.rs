//! Reads model and user messages and their content blocks from frames of the CLI.

use serde_json::{Map, Value};

use super::{
    WireUsage,
    fields::{Fields as _, maps},
    outcome,
};

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        call_id: String,
        /// The text parts; other parts are named in brackets.
        text: String,
        is_error: bool,
    },
    /// A block of an unknown kind.
    Other {
        kind: String,
        body: Map<String, Value>,
    },
}

/// One block of a model message. The CLI writes one frame per block, with the same message id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AssistantFrame {
    /// The CLI's id of the frame: a position from which the conversation can be resumed.
    pub(crate) uuid: Option<String>,
    /// The call that started this frame's agent; `None` for the main agent.
    pub(crate) parent: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop_reason: Option<String>,
    /// Preliminary while the message is streamed.
    pub(crate) usage: Option<WireUsage>,
    /// Set when the CLI reports a failed request instead of an answer.
    pub(crate) error: Option<String>,
    pub(crate) api_error_status: Option<u16>,
    /// Whether an interrupt ended the message early.
    pub(crate) aborted: bool,
}

impl AssistantFrame {
    /// Whether the CLI wrote the message, not a model.
    pub(crate) fn is_synthetic(&self) -> bool {
        self.model.as_deref() == Some("<synthetic>")
    }
}

impl UserFrame {
    /// The ids of the calls whose results this frame contains.
    pub(crate) fn result_call_ids(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolResult { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
    }
}

/// Tool results, the prompt of a subagent, or a message that the CLI adds for the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UserFrame {
    /// The CLI's id of the frame: a position from which the conversation can be resumed.
    pub(crate) uuid: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) is_synthetic: bool,
}

pub(super) fn assistant(mut body: Map<String, Value>) -> AssistantFrame {
    let mut message = body.take_map("message").unwrap_or_default();
    AssistantFrame {
        uuid: body.take_text("uuid"),
        parent: body.take_text("parent_tool_use_id"),
        message_id: message.take_text("id"),
        model: message.take_text("model"),
        blocks: content(message.take_value("content")),
        stop_reason: message.take_text("stop_reason"),
        usage: message.take_map("usage").as_ref().map(outcome::usage),
        error: body.take_text("error"),
        api_error_status: body.status("api_error_status"),
        aborted: body.flag("aborted"),
    }
}

pub(super) fn user(mut body: Map<String, Value>) -> UserFrame {
    let mut message = body.take_map("message").unwrap_or_default();
    UserFrame {
        uuid: body.take_text("uuid"),
        parent: body.take_text("parent_tool_use_id"),
        blocks: content(message.take_value("content")),
        is_synthetic: body.flag("isSynthetic"),
    }
}

fn content(content: Option<Value>) -> Vec<Block> {
    match content {
        Some(Value::String(text)) => vec![Block::Text(text)],
        Some(Value::Array(list)) => maps(list).into_iter().map(block).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn block(mut body: Map<String, Value>) -> Block {
    let kind = body.take_text("type").unwrap_or_default();
    match kind.as_str() {
        "text" => Block::Text(body.take_text("text").unwrap_or_default()),
        "thinking" => Block::Thinking {
            text: body.take_text("thinking").unwrap_or_default(),
            signature: body.take_text("signature").filter(|text| !text.is_empty()),
        },
        // Only the provider can read its data.
        "redacted_thinking" => Block::Thinking {
            text: String::new(),
            signature: body.take_text("data").filter(|data| !data.is_empty()),
        },
        "tool_use" => Block::ToolUse {
            id: body.take_text("id").unwrap_or_default(),
            name: body.take_text("name").unwrap_or_default(),
            input: body.take_value("input").unwrap_or_else(|| Map::new().into()),
        },
        "tool_result" => Block::ToolResult {
            call_id: body.take_text("tool_use_id").unwrap_or_default(),
            text: result_text(body.take_value("content")),
            is_error: body.flag("is_error"),
        },
        _ => Block::Other { kind, body },
    }
}

fn result_text(value: Option<Value>) -> String {
    let blocks = content(value).into_iter();
    let parts: Vec<String> = blocks
        .filter(|block| !is_image_copy(block))
        .map(part_text)
        .collect();
    parts.join("\n")
}

/// Whether a block only names the CLI's copy of an image. It does not come from the tool, and its path differs in each
/// run.
fn is_image_copy(block: &Block) -> bool {
    matches!(block, Block::Text(text) if text.starts_with("[Image: source: ") && text.contains("/tool-results/"))
}

fn part_text(block: Block) -> String {
    match block {
        Block::Text(text) | Block::ToolResult { text, .. } => text,
        Block::Thinking { .. } => "[thinking]".to_owned(),
        Block::ToolUse { .. } => "[tool_use]".to_owned(),
        Block::Other { kind, .. } => format!("[{kind}]"),
    }
}
