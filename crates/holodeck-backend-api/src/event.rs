use serde_json::Value;

use crate::{ApprovalAsk, ApprovalDecision, ExecutionResult, TokenUsage, ToolCall, ToolResult};

/// What a backend tells while a turn runs. The order within one model message is reasoning, text, tool calls,
/// usage, [`TurnEnd`](BackendEvent::TurnEnd); tool results follow; [`End`](BackendEvent::End) is last.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackendEvent {
    /// A piece of reasoning text.
    Thinking {
        /// The new text.
        text: String,
    },
    /// A block of reasoning is complete.
    ThinkingEnd {
        /// The provider's signature, which belongs to exactly this block.
        signature: Option<String>,
    },
    /// A piece of answer text.
    Text {
        /// The new text.
        text: String,
    },
    /// The model called a tool.
    ToolCall(ToolCall),
    /// The host is asked whether a call may run.
    ApprovalAsked(ApprovalAsk),
    /// The ask about a call is over.
    ApprovalAnswered {
        /// The call that was asked about.
        call_id: String,
        /// What was decided.
        decision: ApprovalDecision,
    },
    /// A tool answered.
    ToolResult(ToolResult),
    /// Tokens of one model call; add them up.
    Usage(TokenUsage),
    /// What the other side says model calls cost, in US dollars; add them up.
    Cost {
        /// More than was reported before.
        usd: f64,
    },
    /// One model message is complete.
    TurnEnd {
        /// Why the model stopped.
        stop_reason: StopReason,
        /// The provider's id of the message.
        message_id: Option<String>,
        /// The model that wrote it.
        model: Option<String>,
    },
    /// The other side names the conversation this turn belongs to.
    SessionStarted {
        /// Its own id of the conversation.
        session_id: String,
        /// The model it will ask.
        model: Option<String>,
    },
    /// An event of an agent that the running one started. No part of the turn's own result.
    Nested {
        /// The call that started that agent.
        parent_call_id: String,
        /// What happened in it.
        event: Box<BackendEvent>,
    },
    /// The answer as an object that satisfies the agent's `response_format`.
    StructuredOutput(Value),
    /// A model call came from a recording that took this long.
    Replayed {
        /// The recorded duration.
        latency: std::time::Duration,
    },
    /// The turn waits for its place under `model.rpm`, or for a process to start. Whoever times the turn stops the
    /// clock until [`Resumed`](BackendEvent::Resumed).
    Paused,
    /// The wait is over.
    Resumed,
    /// Something the person should know that changes no verdict, said once per backend.
    Notice {
        /// Lower case, no full stop.
        message: String,
    },
    /// The turn is over; nothing follows.
    End(Box<ExecutionResult>),
}

/// Why a model stopped writing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It waits for tools.
    ToolUse,
    /// It hit the token limit.
    MaxTokens,
    /// A stop sequence.
    StopSequence,
    /// It refused, or a filter did.
    Refusal,
    /// A value this version does not know, kept as it came.
    Other(String),
}

impl StopReason {
    /// The word, under [`StopReason::Other`], for a message that was cut off before it was complete.
    pub const ABORTED: &str = "aborted";

    /// A message that was cut off before it was complete.
    pub fn aborted() -> Self {
        Self::Other(Self::ABORTED.to_owned())
    }

    /// Whether the message was cut off.
    pub fn is_aborted(&self) -> bool {
        matches!(self, Self::Other(word) if word == Self::ABORTED)
    }
}
