//! The boundary to a model: one request in, a stream of deltas out. Recording and replay work at this boundary.

use std::{pin::Pin, time::Duration};

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{Adaptation, BackendError, NumberOdds, RequestBody, StopReason, TokenUsage, ToolCall};

/// The boundary to the model: one request in, a stream of deltas out. The HTTP driver calls the endpoint, the
/// recorder wraps the driver, and the replayer replaces it.
#[async_trait]
pub trait ModelCalls: Send + Sync {
    /// Makes one model call.
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError>;
}

/// The streamed answer to one model call. It ends after [`ModelDelta::Finish`], or with an error.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelDelta, BackendError>> + Send>>;

/// Exactly what the model sees: no endpoint, header or key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The provider as the YAML names it.
    pub provider: String,
    /// The model as the YAML names it.
    pub model: String,
    /// The request's body.
    pub body: RequestBody,
    /// The unit that the request belongs to, such as a test case. The model does not see it; a recording uses it to
    /// distinguish equal requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelDelta {
    /// The call waits for a local rate limit before it is sent.
    Paused,
    /// The wait is over.
    Resumed,
    /// An attempt failed before its first byte and will be retried.
    Retrying {
        /// The error of the attempt.
        cause: String,
        /// The wait before the retry.
        wait: Duration,
    },
    /// A part of the request that the endpoint refused was sent in another form. It comes with each answer that it concerns.
    Adapted(Adaptation),
    /// Something that people should know about the answer. The same one may come with each answer.
    Notice(String),
    /// Reasoning text.
    Reasoning(String),
    /// Answer text.
    Text(String),
    /// The text so far was reasoning: the server left it in the content, and only its end shows it.
    TextWasReasoning,
    /// Refusal text.
    Refusal(String),
    /// One complete tool call; drivers assemble the pieces.
    ToolCall(ToolCall),
    /// The odds of the numbers in the answer; after its text.
    NumberOdds(Vec<NumberOdds>),
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

/// The recorded call that a replayed answer comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// How long the recorded call took.
    pub latency: Duration,
    /// Whether the text was masked in the recording.
    pub redacted: bool,
    /// The positions of the tool calls whose arguments were masked.
    pub redacted_calls: Vec<usize>,
}
