//! The request for one turn.

use std::sync::{Arc, OnceLock};

use holodeck_model::{CommandRequest, JsonMap};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Approver, Image, Spending};

/// Whether the model reasons before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "off, or on with a budget")]
pub enum Thinking {
    /// It does not.
    Off,
    /// It does, with at most this many tokens. Newer models ignore the number.
    Budget(u32),
}

/// One turn to run.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The message of the user.
    pub message: String,
    /// Images attached to the message.
    pub images: Vec<Image>,
    /// The values of the test case that the request to an agent contains beside the message; empty for a model.
    pub vars: JsonMap,
    /// How an agent with `routing:` is to execute it. Backends of a model ignore it.
    pub command: CommandRequest,
    /// The unit that the turn belongs to, such as a test case; see [`ModelRequest::unit`](crate::ModelRequest::unit).
    pub unit: Option<String>,
    /// Which trial of its test case the turn belongs to, from 0: what tools keep in one trial is hidden from the others.
    pub trial: u32,
    /// Whether the model reasons before it answers; `None`: as configured. A backend that cannot choose it for one turn says
    /// so in a [`Notice`](crate::BackendEvent::Notice).
    pub thinking: Option<Thinking>,
    /// Whether the oldest turns of the conversation may be left out of a request that is too long for the model; a
    /// [`Notice`](crate::BackendEvent::Notice) says so. A test would judge another conversation.
    pub may_forget: bool,
    /// The limits and the form that a client asks for in this answer, besides those of the agent.
    pub wishes: AnswerWishes,
    /// Whether to ask for the odds of the numbers in the answer. A backend or an endpoint that knows none ignores it.
    pub number_odds: bool,
    /// Collects the usage of model calls made by tools; the turn's result contains the agent's own usage.
    pub spending: Spending,
    /// Receives the W3C `traceparent` of the turn's span, if the turn is traced.
    pub traceparent: Arc<OnceLock<String>>,
    /// Decides about the turn's tool calls; `None` selects the backend's own approver.
    pub approver: Option<Arc<dyn Approver>>,
    /// Stops the turn; content received so far is kept.
    pub cancel: CancellationToken,
}

impl TurnRequest {
    /// A turn with only this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            images: Vec::new(),
            vars: JsonMap::new(),
            command: CommandRequest::default(),
            unit: None,
            trial: 0,
            thinking: None,
            may_forget: false,
            wishes: AnswerWishes::default(),
            number_odds: false,
            spending: Spending::new(),
            traceparent: Arc::default(),
            approver: None,
            cancel: CancellationToken::new(),
        }
    }
}

/// The limits and the form that a client asks for in one answer. Only backends of an OpenAI-compatible endpoint can follow
/// them; who sets them asks whether the agent has one.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct AnswerWishes {
    /// The most tokens of each message of the model; the limit of the agent counts, too.
    pub max_tokens: Option<u32>,
    /// Texts before which the model stops.
    pub stop: Vec<String>,
    /// The form of the answer, as `response_format` of the endpoint; for an agent that has none.
    pub format: Option<Value>,
}
