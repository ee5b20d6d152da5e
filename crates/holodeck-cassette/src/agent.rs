//! Agents that are asked turn by turn: what happens between two turns is not ours, so a turn is what is recorded.

mod recorded;
mod replayed;

use holodeck_backend_api::{BackendEvent, ContextMessage, Image, ModelRequest, Outcome, Role, TurnRequest};
use serde_json::{Map, Value, json};

use crate::{digest::digest, turn_events};

pub use recorded::RecordedAgent;
pub use replayed::ReplayedAgent;

/// What the model of an agent sees whatever it is asked: the part of every turn's key that stays the same.
#[derive(Clone, Debug, Default)]
pub struct AgentSeen {
    /// The provider as the YAML names it.
    pub provider: String,
    /// The model as the YAML names it.
    pub model: String,
    /// Instructions, tools, the form of the answer, limits, and digests of the files behind them.
    pub seen: Value,
}

impl AgentSeen {
    /// A turn as a request: with this, everything the model sees.
    fn request(&self, turn: &TurnRequest, said: &Said) -> ModelRequest {
        let mut body = Map::new();
        body.insert("agent".to_owned(), self.seen.clone());
        if !said.0.is_empty() {
            body.insert("conversation".to_owned(), Value::Array(said.0.clone()));
        }
        body.insert("message".to_owned(), turn.message.as_str().into());
        if !turn.images.is_empty() {
            body.insert("images".to_owned(), pictures(&turn.images));
        }
        ModelRequest {
            provider: self.provider.clone(),
            model: self.model.clone(),
            body: Value::Object(body),
            unit: turn.unit.clone(),
        }
    }
}

/// Pictures by what is in them.
fn pictures(images: &[Image]) -> Value {
    let images = images
        .iter()
        .map(|image| json!({"media_type": image.media_type, "digest": digest(image.base64.as_bytes())}));
    images.collect()
}

/// What was said in a conversation, as the key of its next turn holds it.
///
/// It is made of what is written down, with secrets taken out, so that it is the same when it is replayed.
#[derive(Clone, Debug, Default)]
struct Said(Vec<Value>);

impl Said {
    fn of(context: &[ContextMessage]) -> Self {
        let messages = context.iter().map(|message| {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            json!({"role": role, "content": message.content})
        });
        Self(messages.collect())
    }

    /// A turn is over that ended in an answer, good or bad. One that broke off was not said.
    fn add(&mut self, question: Value, events: &[BackendEvent], outcome: &Outcome) {
        let result = turn_events::result(events, outcome.clone());
        let mut answer = Map::new();
        answer.insert("role".to_owned(), "assistant".into());
        answer.insert("content".to_owned(), result.response.into());
        let tools: Vec<&BackendEvent> = events
            .iter()
            .filter(|event| matches!(event, BackendEvent::ToolCall(_) | BackendEvent::ToolResult(_)))
            .collect();
        if !tools.is_empty() {
            // They are in the turn's own entry, and whole once more in every later one would be much.
            let tools = serde_json::to_vec(&tools).unwrap_or_default();
            answer.insert("tools".to_owned(), digest(&tools).into());
        }
        if let Some(reason) = outcome.reason() {
            answer.insert("ended".to_owned(), reason.into());
        }
        self.0.push(question);
        self.0.push(Value::Object(answer));
    }
}

/// A turn's message, as a message of the conversation.
fn question(turn: &TurnRequest) -> Value {
    let mut question = Map::new();
    question.insert("role".to_owned(), "user".into());
    question.insert("content".to_owned(), turn.message.as_str().into());
    if !turn.images.is_empty() {
        question.insert("images".to_owned(), pictures(&turn.images));
    }
    Value::Object(question)
}

#[cfg(test)]
mod tests;
