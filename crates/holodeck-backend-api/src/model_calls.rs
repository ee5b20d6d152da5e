use std::{pin::Pin, time::Duration};

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BackendError, StopReason, TokenUsage, ToolCall};

/// The boundary to the model: one request in, a stream of deltas out. The HTTP driver talks to the endpoint, the
/// recorder stands before it, the replayer in its place.
#[async_trait]
pub trait ModelCalls: Send + Sync {
    /// Makes one model call.
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError>;
}

/// The answer to one model call as it arrives. It ends after [`ModelDelta::Finish`], or with an error.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelDelta, BackendError>> + Send>>;

/// Everything the model sees, and nothing else: no endpoint, no header, no key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The provider as the YAML names it.
    pub provider: String,
    /// The model as the YAML names it.
    pub model: String,
    /// The request's body: messages, tools, response format, parameters.
    pub body: Value,
    /// What asked, for instance a test case. The model does not see it; a recording uses it to tell equal requests
    /// apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelDelta {
    /// The call waits for its place under a rate limit of ours, before it is sent.
    Paused,
    /// The wait is over.
    Resumed,
    /// An attempt failed before its first byte, and the request is sent again.
    Retrying {
        /// What the attempt ended with.
        cause: String,
        /// How long is waited before.
        wait: Duration,
    },
    /// Reasoning text.
    Reasoning(String),
    /// Answer text.
    Text(String),
    /// Refusal text.
    Refusal(String),
    /// One whole tool call; drivers put the pieces together.
    ToolCall(ToolCall),
    /// Tokens of the call.
    Usage(TokenUsage),
    /// The answer is complete.
    Finish {
        /// Why the model stopped.
        stop_reason: StopReason,
        /// The provider's id of the message.
        message_id: Option<String>,
        /// The model's own name.
        model: Option<String>,
        /// Set when the answer comes from a recording.
        recorded: Option<RecordedCall>,
    },
}

/// Where a replayed answer comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// How long the model took then.
    pub latency: Duration,
}
