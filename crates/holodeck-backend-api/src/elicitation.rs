//! Questions that an MCP server asks the person during a call, and their answers.

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{ApprovalAsk, ApprovalDecision, Zone};

/// Answers a server's questions to the person. Without one, every question is declined.
#[async_trait]
pub trait ElicitationHost: Send + Sync {
    /// Answers.
    async fn elicit(&self, question: Elicitation) -> ElicitationAnswer;
}

/// A question of a server to the person.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// The server's name in the YAML.
    pub server: String,
    /// The question.
    pub message: String,
    /// The schema of the answer: an object with scalar fields.
    pub schema: Value,
}

impl Elicitation {
    /// The answer to begin with: each field with its default, or `null`.
    fn blank_answer(&self) -> Value {
        let fields = self.schema.get("properties").and_then(Value::as_object);
        let blank = |(name, field): (&String, &Value)| {
            let default = field.get("default").cloned().unwrap_or_default();
            (name.clone(), default)
        };
        Value::Object(fields.map_or_else(Map::new, |fields| fields.iter().map(blank).collect()))
    }
}

/// The question as people are asked it; its call is not known yet.
impl From<&Elicitation> for ApprovalAsk {
    fn from(question: &Elicitation) -> Self {
        Self {
            // No tool has such a name: an answer that is remembered allows nothing.
            tool_name: format!("{}:elicitation", question.server),
            arguments: question.blank_answer(),
            call_id: String::new(),
            description: Some(format!("`{}` asks: {}", question.server, question.message)),
            agent_id: None,
            answer_schema: Some(Box::new(question.schema.clone())),
            paths: Vec::new(),
            reason: None,
            zone: Zone::Inside,
            tool_digest: None,
            scopes: None,
            is_followed: false,
        }
    }
}

impl ApprovalDecision {
    /// The answer to a server's question that a decision means; `blank` is the answer that was shown.
    pub fn into_answer(self, blank: Value) -> ElicitationAnswer {
        match self {
            Self::Approve { arguments } => {
                let mut answer = arguments.unwrap_or(blank);
                if let Some(fields) = answer.as_object_mut() {
                    // A field that is left empty is not given.
                    fields.retain(|_, value| !value.is_null());
                }
                ElicitationAnswer::Accept(answer)
            }
            Self::Reject { .. } => ElicitationAnswer::Decline,
            Self::Terminate { .. } | Self::Withdrawn => ElicitationAnswer::Cancel,
        }
    }
}

/// The person's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// An object that matches the schema; missing fields get the schema's defaults.
    Accept(Value),
    /// Declined; the server continues.
    Decline,
    /// Cancelled; the server stops its operation.
    Cancel,
}

impl fmt::Debug for dyn ElicitationHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ElicitationHost")
    }
}
