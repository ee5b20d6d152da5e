use holodeck_backend_api::{TokenUsage, ToolCall};
use serde_json::{Value, json};

/// What the model behind a backend does, call by call, and how the agent is set.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// One entry for each model call.
    pub moves: Vec<ModelMove>,
    /// The agent's limit of model calls.
    pub max_turns: Option<u32>,
    /// The agent's `response_format`.
    pub response_format: Option<Value>,
    /// The approver of the turn is to be asked about every call.
    pub asks: bool,
}

/// What a model does when it is called.
#[derive(Clone, Debug)]
pub enum ModelMove {
    /// Answers.
    Say {
        /// Reasoning before the answer.
        reasoning: Option<&'static str>,
        /// The answer, in the pieces it is streamed in.
        pieces: Vec<&'static str>,
        /// What is said about tokens.
        usage: Option<TokenUsage>,
    },
    /// Says what the user and the assistant said before it, joined by ` | `.
    Repeat,
    /// Calls tools.
    Call(Vec<ToolCall>),
    /// Refuses.
    Refuse(&'static str),
    /// Ends without having said anything.
    SayNothing,
    /// Says this, and then the stream breaks.
    BreakOff(&'static str),
    /// Says this, and then nothing any more.
    HangAfter(&'static str),
    /// Answers with this HTTP status, or what is like it.
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
    }
}
