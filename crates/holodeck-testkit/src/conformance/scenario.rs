//! Describes how the model behind a backend behaves, independent of any wire format.

use holodeck_backend_api::{TokenUsage, ToolCall};
use serde_json::{Value, json};

/// The behaviour of the model behind a backend, call by call, and the agent's settings.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// One entry for each model call.
    pub moves: Vec<ModelMove>,
    /// The agent's limit of model calls.
    pub max_turns: Option<u32>,
    /// The agent's `response_format`.
    pub response_format: Option<Value>,
    /// The turn's approver decides about every call.
    pub asks: bool,
}

/// The behaviour of a model in one call.
#[derive(Clone, Debug)]
pub enum ModelMove {
    /// Answers.
    Say {
        /// Reasoning before the answer.
        reasoning: Option<&'static str>,
        /// The answer, in the pieces it is streamed in.
        pieces: Vec<&'static str>,
        /// The reported token usage.
        usage: Option<TokenUsage>,
    },
    /// Answers with the earlier user and assistant texts, joined by ` | `.
    Repeat,
    /// Calls tools.
    Call(Vec<ToolCall>),
    /// Refuses.
    Refuse(&'static str),
    /// Ends without any output.
    SayNothing,
    /// Answers this, and then the stream breaks.
    BreakOff(&'static str),
    /// Answers this, and then stays silent.
    HangAfter(&'static str),
    /// Answers with this HTTP status, or its equivalent.
    Fail(u16),
}

impl Scenario {
    pub(super) fn of(moves: impl IntoIterator<Item = ModelMove>) -> Self {
        Self {
            moves: moves.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl ModelMove {
    pub(super) fn say(text: &'static str) -> Self {
        Self::Say {
            reasoning: None,
            pieces: vec![text],
            usage: Some(TokenUsage::new(10, 5)),
        }
    }

    /// Calls one tool of the testkit's own.
    pub(super) fn call(tool: &str) -> Self {
        Self::Call(vec![call("c1", tool, "x")])
    }
}

pub(super) fn call(id: &str, tool: &str, text: &str) -> ToolCall {
    ToolCall {
        name: tool.to_owned(),
        arguments: json!({ "text": text }),
        call_id: id.to_owned(),
        provider_fields: None,
    }
}
