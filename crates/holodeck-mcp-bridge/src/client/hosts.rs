//! What a server may ask of whoever uses it.

use async_trait::async_trait;
use holodeck_backend_api::{Image, Role, ToolCx};
use serde_json::Value;

/// Asks a model for servers whose tool says `sampling: allow`. All others are told that there is no sampling.
#[async_trait]
pub trait SamplingHost: Send + Sync {
    /// Asks for the call of a tool that `cx` is of; an error is what the server is told.
    async fn sample(&self, request: SamplingRequest, cx: ToolCx) -> Result<SamplingAnswer, String>;
}

/// What a server wants to ask a model.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// The server, as the YAML names it.
    pub server: String,
    /// The system prompt it wants.
    pub system_prompt: Option<String>,
    /// The conversation.
    pub messages: Vec<SampledMessage>,
    /// The most tokens of the answer.
    pub max_tokens: u32,
    /// The temperature it wants.
    pub temperature: Option<f32>,
    /// Texts that end the answer.
    pub stop_sequences: Vec<String>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledMessage {
    /// Who says it.
    pub role: Role,
    /// What.
    pub text: String,
    /// Pictures in it.
    pub images: Vec<Image>,
}

/// What a model answered a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingAnswer {
    /// The text.
    pub text: String,
    /// The model.
    pub model: String,
    /// Why it ended, in MCP's words (`endTurn`, `maxTokens`, `stopSequence`).
    pub stop_reason: Option<String>,
}

/// Answers what a server asks of the person. Without one every question is declined.
#[async_trait]
pub trait ElicitationHost: Send + Sync {
    /// Answers.
    async fn elicit(&self, question: Elicitation) -> ElicitationAnswer;
}

/// A question of a server to the person.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// The server, as the YAML names it.
    pub server: String,
    /// The question.
    pub message: String,
    /// The schema of the answer: an object of plain values.
    pub schema: Value,
}

/// What the person answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// An object for the schema; fields that are left out get the schema's defaults.
    Accept(Value),
    /// No answer, and the server goes on.
    Decline,
    /// No answer, and the server stops what it does.
    Cancel,
}
