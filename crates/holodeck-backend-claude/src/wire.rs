//! What the CLI writes and what it is written: one JSON object per line.
//!
//! Reading is tolerant. A field that is missing or of another type is absent, a kind of message that is not known is
//! [`Frame::Other`] with everything in it, and only a line that is no object with a `type` is no frame.

mod block;
mod control;
mod fields;
mod outcome;
mod outgoing;
mod stream;
mod system;

use serde_json::{Map, Value};

use self::fields::Fields as _;
pub(crate) use self::{
    block::{AssistantFrame, Block, UserFrame},
    control::{CanUseTool, ControlError, HostRequest},
    outcome::{ResultFrame, WireUsage},
    outgoing::{Delivery, control_error, control_request, control_success, user_message},
    stream::{Delta, StreamEvent, StreamFrame},
    system::{ApiRetry, Init, TaskNews},
};

/// One line of the CLI.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// A turn begins.
    Init(Init),
    /// A request to the model failed and will be tried again.
    ApiRetry(ApiRetry),
    /// Another model takes over.
    ModelFallback {
        from: Option<String>,
        to: Option<String>,
        /// The CLI's own words.
        text: Option<String>,
    },
    /// A tool call was denied without asking.
    PermissionDenied {
        tool_name: Option<String>,
        call_id: Option<String>,
        message: Option<String>,
    },
    /// `running`, `idle` or `requires_action`.
    SessionState(String),
    /// A subagent started, ended or changed.
    Task(TaskNews),
    /// Another `system` message.
    System {
        subtype: String,
        body: Map<String, Value>,
    },
    /// A piece of a model message while it is written.
    StreamEvent(StreamFrame),
    /// A block of a model message, complete.
    Assistant(AssistantFrame),
    /// Tool results, and what the CLI says to the model by itself.
    User(UserFrame),
    /// A turn is over.
    Result(Box<ResultFrame>),
    /// The CLI asks the host.
    ControlRequest {
        request_id: String,
        request: HostRequest,
    },
    /// The answer to a request of the host.
    ControlResponse {
        request_id: String,
        outcome: Result<Value, ControlError>,
    },
    /// The CLI takes a request back.
    ControlCancel { request_id: String },
    /// `/clear` was done.
    ConversationReset { new_id: Option<String> },
    /// A message of a kind this version does not know.
    Other { kind: String, body: Map<String, Value> },
}

impl Frame {
    /// The model's message that this frame is a part of, and the tool calls in it.
    pub(crate) fn tool_calls(&self) -> Option<(&str, usize)> {
        let Self::Assistant(frame) = self else { return None };
        let calls = frame.blocks.iter();
        let calls = calls
            .filter(|block| matches!(block, Block::ToolUse { .. }))
            .count();
        Some((frame.message_id.as_deref()?, calls)).filter(|_| calls > 0)
    }

    /// The place in the main conversation that this frame stands for.
    pub(crate) fn place(&self) -> Option<&str> {
        match self {
            Self::Assistant(frame) if frame.parent.is_none() => frame.uuid.as_deref(),
            Self::User(frame) if frame.parent.is_none() => frame.uuid.as_deref(),
            _ => None,
        }
    }
}

/// The line is not JSON, or no object with a `type`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of the CLI: {reason}")]
pub(crate) struct NotAFrame {
    /// What is wrong with it. Holds nothing of the line itself.
    pub(crate) reason: String,
}

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Result<Frame, NotAFrame> {
    let value = match serde_json::from_slice(line) {
        Ok(value) => value,
        // JavaScript cuts strings between the halves of a character, and pipes cut bytes.
        Err(error) => holodeck_model::mend_json(line)
            .and_then(|line| serde_json::from_str(&line).ok())
            .ok_or_else(|| not_a_frame(&error))?,
    };
    let Value::Object(mut body) = value else {
        return Err(NotAFrame {
            reason: "not an object".to_owned(),
        });
    };
    let Some(kind) = body.take_text("type") else {
        return Err(NotAFrame {
            reason: "no `type`".to_owned(),
        });
    };
    Ok(frame(kind, body))
}

fn not_a_frame(error: &serde_json::Error) -> NotAFrame {
    let reason = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        _ => "not JSON",
    };
    NotAFrame {
        reason: reason.to_owned(),
    }
}

fn frame(kind: String, mut body: Map<String, Value>) -> Frame {
    match kind.as_str() {
        "system" => system::read(body),
        "stream_event" => Frame::StreamEvent(stream::read(body)),
        "assistant" => Frame::Assistant(block::assistant(body)),
        "user" => Frame::User(block::user(body)),
        "result" => Frame::Result(Box::new(outcome::read(body))),
        "control_request" => match body.take_text("request_id") {
            Some(request_id) => Frame::ControlRequest {
                request_id,
                request: control::host_request(body.take_map("request").unwrap_or_default()),
            },
            None => Frame::Other { kind, body },
        },
        "control_response" => control::response(body.take_map("response").unwrap_or_default())
            .unwrap_or_else(|body| Frame::Other { kind, body }),
        "control_cancel_request" => match body.take_text("request_id") {
            Some(request_id) => Frame::ControlCancel { request_id },
            None => Frame::Other { kind, body },
        },
        "conversation_reset" => Frame::ConversationReset {
            new_id: body.take_text("new_conversation_id"),
        },
        _ => Frame::Other { kind, body },
    }
}

#[cfg(test)]
mod tests;
