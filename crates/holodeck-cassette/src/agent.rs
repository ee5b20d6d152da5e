//! Records and replays agents that call their model themselves: there the turn is recorded, and not the model call.

mod recorded;
mod replayed;

use holodeck_backend_api::{BackendEvent, HistoryItem, Image, ModelRequest, Outcome, Thinking, TurnRequest};
use serde_json::{Map, Value, json};

use crate::{digest::digest, turn_events};

pub use recorded::RecordedAgent;
pub use replayed::ReplayedAgent;

/// The context that the model of an agent sees in every turn: the constant part of the key of each turn.
#[derive(Clone, Debug, Default)]
pub struct AgentContext {
    /// The provider as the YAML names it.
    pub provider: String,
    /// The model as the YAML names it.
    pub model: String,
    /// Instructions, tools, the answer format, limits, and digests of the files behind them.
    pub content: Value,
}

impl AgentContext {
    /// A turn as a request that holds everything the model sees.
    fn request(&self, turn: &TurnRequest, conversation: &ConversationKey) -> ModelRequest {
        let mut body = Map::new();
        body.insert("agent".to_owned(), self.content.clone());
        if !conversation.0.is_empty() {
            body.insert("conversation".to_owned(), Value::Array(conversation.0.clone()));
        }
        body.insert("message".to_owned(), turn.message.as_str().into());
        if !turn.images.is_empty() {
            body.insert("images".to_owned(), image_digests(&turn.images));
        }
        if !turn.vars.is_empty() {
            body.insert("vars".to_owned(), Value::Object(turn.vars.clone()));
        }
        if let Some(thinking) = turn.thinking {
            let tokens = match thinking {
                Thinking::Off => 0,
                Thinking::Budget(tokens) => tokens,
            };
            body.insert("thinking".to_owned(), tokens.into());
        }
        ModelRequest {
            provider: self.provider.clone(),
            model: self.model.clone(),
            body: Value::Object(body).into(),
            unit: turn.unit.clone(),
        }
    }
}

/// Images by their content.
fn image_digests(images: &[Image]) -> Value {
    let images = images
        .iter()
        .map(|image| json!({"media_type": image.media_type, "digest": digest(image.base64.as_bytes())}));
    images.collect()
}

/// The messages of a conversation, as the key of its next turn contains them.
///
/// They are built from the masked, recorded turns, so that they are the same in a replay.
#[derive(Clone, Debug, Default)]
struct ConversationKey(Vec<Value>);

impl ConversationKey {
    /// A conversation that began before the recording.
    fn from_history(history: &[HistoryItem]) -> Self {
        let messages = history.iter().map(|item| match item {
            HistoryItem::User { text } => json!({"role": "user", "content": text}),
            HistoryItem::Assistant { text } => json!({"role": "assistant", "content": text}),
            other => serde_json::to_value(other).unwrap_or_default(),
        });
        Self(messages.collect())
    }

    /// Adds a turn that ended with an answer, good or bad. An interrupted turn is not added.
    fn add(&mut self, message: Value, events: &[BackendEvent], outcome: &Outcome) {
        let result = turn_events::result(events, outcome.clone());
        let mut answer = Map::new();
        answer.insert("role".to_owned(), "assistant".into());
        answer.insert("content".to_owned(), result.response.into());
        let tools: Vec<&BackendEvent> = events
            .iter()
            .filter(|event| matches!(event, BackendEvent::ToolCall(_) | BackendEvent::ToolResult(_)))
            .collect();
        if !tools.is_empty() {
            // The entry of the turn holds them; repeating them in the entry of each later turn would take much space.
            let tools = serde_json::to_vec(&tools).unwrap_or_default();
            answer.insert("tools".to_owned(), digest(&tools).into());
        }
        if let Some(reason) = outcome.reason() {
            answer.insert("ended".to_owned(), reason.into());
        }
        self.0.push(message);
        self.0.push(Value::Object(answer));
    }
}

/// The user message of a turn, as a message of the conversation.
fn user_message(turn: &TurnRequest) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "user".into());
    message.insert("content".to_owned(), turn.message.as_str().into());
    if !turn.images.is_empty() {
        message.insert("images".to_owned(), image_digests(&turn.images));
    }
    Value::Object(message)
}

#[cfg(test)]
mod tests;
