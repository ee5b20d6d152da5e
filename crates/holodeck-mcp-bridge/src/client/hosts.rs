//! Requests that a server may send to the application, and the traits that answer them.

use async_trait::async_trait;
use holodeck_backend_api::{Image, Role, ToolCx};

/// Samples a model for servers whose tool sets `sampling: allow`. Other servers see no sampling capability.
#[async_trait]
pub trait SamplingHost: Send + Sync {
    /// Samples during the tool call that `cx` belongs to; an error is sent to the server.
    async fn sample(&self, request: SamplingRequest, cx: ToolCx) -> Result<SamplingAnswer, String>;
}

/// A server's request to sample a model.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// The server's name in the YAML.
    pub server: String,
    /// The requested system prompt.
    pub system_prompt: Option<String>,
    /// The conversation.
    pub messages: Vec<SampledMessage>,
    /// Maximum tokens of the answer.
    pub max_tokens: u32,
    /// The requested temperature.
    pub temperature: Option<f32>,
    /// Stop sequences.
    pub stop_sequences: Vec<String>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledMessage {
    /// The role.
    pub role: Role,
    /// The text.
    pub text: String,
    /// Its images.
    pub images: Vec<Image>,
}

/// The model's answer for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingAnswer {
    /// The text.
    pub text: String,
    /// The model.
    pub model: String,
    /// The stop reason, in MCP's words (`endTurn`, `maxTokens`, `stopSequence`).
    pub stop_reason: Option<String>,
}
