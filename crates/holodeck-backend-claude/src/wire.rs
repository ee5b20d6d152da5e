//! The messages from and to the CLI: one JSON object per line.
//!
//! Parsing is tolerant. A field of the wrong type counts as absent, and a message of an unknown kind becomes a
//! [`Frame::Other`] with its whole content. Only a line that is not an object with a `type` is an error.

mod block;
mod control;
mod fields;
mod outcome;
mod outgoing;
mod stream;
mod system;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use self::fields::Fields as _;
pub(crate) use self::{
    block::{AssistantFrame, Block, UserFrame},
    control::{CanUseTool, ControlError, HostRequest},
    outcome::{ResultFrame, Spending, WireUsage},
    outgoing::{Delivery, control_error, control_request, control_success, user_message},
    stream::{Delta, StreamEvent, StreamFrame},
    system::{ApiRetry, Compaction, Init, TaskChange},
};

/// One line of the CLI's output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// A turn begins.
    Init(Init),
    /// A request to the model failed and will be retried.
    ApiRetry(ApiRetry),
    /// Another model takes over.
    ModelFallback {
        from: Option<String>,
        to: Option<String>,
        /// The CLI's own text.
        text: Option<String>,
    },
    /// The CLI put a summary in place of the conversation so far, or failed to.
    Compaction(Compaction),
    /// A tool call was denied without asking.
    PermissionDenied {
        tool_name: Option<String>,
        call_id: Option<String>,
        message: Option<String>,
    },
    /// `running`, `idle` or `requires_action`.
    SessionState(String),
    /// A subagent started, ended or changed.
    Task(TaskChange),
    /// Another `system` message.
    System {
        subtype: String,
        body: Map<String, Value>,
    },
    /// A piece of a streamed model message.
    StreamEvent(StreamFrame),
    /// A complete block of a model message.
    Assistant(AssistantFrame),
    /// Tool results, and messages that the CLI adds for the model.
    User(UserFrame),
    /// The end of a turn.
    Result(Box<ResultFrame>),
    /// A request of the CLI to the host.
    ControlRequest {
        request_id: String,
        request: HostRequest,
    },
    /// The answer to a request of the host.
    ControlResponse {
        request_id: String,
        outcome: Result<Value, ControlError>,
    },
    /// The CLI withdraws a request.
    ControlCancel { request_id: String },
    /// `/clear` is complete.
    ConversationReset { new_id: Option<String> },
    /// A message of an unknown kind.
    Other { kind: String, body: Map<String, Value> },
}

impl Frame {
    /// The id of the model message that this frame belongs to, and the number of tool calls in the frame.
    pub(crate) fn tool_calls(&self) -> Option<(&str, usize)> {
        let Self::Assistant(frame) = self else { return None };
        let calls = frame.blocks.iter();
        let calls = calls
            .filter(|block| matches!(block, Block::ToolUse { .. }))
            .count();
        Some((frame.message_id.as_deref()?, calls)).filter(|_| calls > 0)
    }

    /// The CLI's id of this message, if it belongs to the main conversation.
    pub(crate) fn message_uuid(&self) -> Option<&str> {
        match self {
            Self::Assistant(frame) if frame.parent.is_none() => frame.uuid.as_deref(),
            Self::User(frame) if frame.parent.is_none() => frame.uuid.as_deref(),
            _ => None,
        }
    }
}

/// The line is not a JSON object with a `type`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of the CLI: {reason}")]
pub(crate) struct FrameError {
    /// The reason, without any content of the line.
    pub(crate) reason: String,
}

/// Parses one line.
pub(crate) fn parse(line: &[u8]) -> Result<Frame, FrameError> {
    let mut body = match body(line) {
        Ok(body) => body,
        // JavaScript can split a string within a surrogate pair, and a pipe within a UTF-8 character.
        Err(error) => holodeck_model::mend_json(line)
            .and_then(|line| self::body(line.as_bytes()).ok())
            .ok_or(error)?,
    };
    let Some(kind) = body.take_text("type") else {
        return Err(FrameError {
            reason: "no `type`".to_owned(),
        });
    };
    Ok(frame(kind, body))
}

/// The name of the field with a structured answer.
const STRUCTURED_OUTPUT: &str = "structured_output";

/// A line with a structured answer, which stays as it was written: a value would hold its numbers in another precision.
#[derive(Deserialize)]
struct WithAnswer<'a> {
    #[serde(borrow)]
    structured_output: Option<&'a RawValue>,
    #[serde(flatten)]
    body: Map<String, Value>,
}

/// The object of a line, in which a structured answer is the text of its JSON.
fn body(line: &[u8]) -> Result<Map<String, Value>, FrameError> {
    let read = match serde_json::from_slice(line) {
        Ok(Value::Object(body)) if body.contains_key(STRUCTURED_OUTPUT) => Ok(body),
        Ok(Value::Object(body)) => return Ok(body),
        Ok(_) => {
            return Err(FrameError {
                reason: "not an object".to_owned(),
            });
        }
        // A number of the answer may be beyond every number that a value holds.
        Err(error) => Err(FrameError::invalid_json(&error)),
    };
    let Ok(WithAnswer {
        structured_output,
        mut body,
    }) = serde_json::from_slice(line)
    else {
        return read;
    };
    if let Some(json) = structured_output {
        body.insert(STRUCTURED_OUTPUT.to_owned(), json.get().into());
    }
    Ok(body)
}

impl FrameError {
    fn invalid_json(error: &serde_json::Error) -> Self {
        let reason = match error.classify() {
            serde_json::error::Category::Eof => "incomplete JSON",
            _ => "not JSON",
        };
        Self {
            reason: reason.to_owned(),
        }
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
