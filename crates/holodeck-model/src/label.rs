//! Answers and conversations with the verdicts of people, with which judges are calibrated.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Location;

/// An answer or a conversation that people judged, to compare a judge with them.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LabelledItem {
    /// Its row in the file.
    pub location: Location,
    /// The case that it belongs to, if the row names one.
    pub case: Option<String>,
    /// The content that people judged.
    pub content: LabelledContent,
    /// The expected answer.
    pub ground_truth: Option<String>,
    /// The passages that the answer should follow.
    pub retrieval_context: Option<Vec<String>>,
    /// Whether people let it pass.
    pub passed: bool,
}

/// The content that people judged.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a metric measures one of these")]
pub enum LabelledContent {
    /// One answer.
    Answer {
        /// The question.
        input: String,
        /// The answer.
        response: String,
    },
    /// A whole conversation.
    Conversation {
        /// The goal of the user, for a metric that does not state it.
        goal: Option<String>,
        /// The turns, at least one.
        turns: Vec<LabelledTurn>,
    },
}

impl LabelledContent {
    /// Whether it is a whole conversation.
    pub fn is_conversation(&self) -> bool {
        matches!(self, Self::Conversation { .. })
    }

    /// The first message of the user.
    pub fn question(&self) -> &str {
        match self {
            Self::Answer { input, .. } => input,
            Self::Conversation { turns, .. } => turns.first().map_or("", |turn| &turn.user),
        }
    }

    /// The answers of the agent, in their order.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        let (one, turns) = match self {
            Self::Answer { response, .. } => (Some(response.as_str()), &[][..]),
            Self::Conversation { turns, .. } => (None, turns.as_slice()),
        };
        one.into_iter()
            .chain(turns.iter().map(|turn| turn.agent.as_str()))
    }
}

/// A turn of a conversation that people judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LabelledTurn {
    /// The message of the user.
    pub user: String,
    /// The answer of the agent.
    pub agent: String,
    /// The tools that the agent called, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<LabelledCall>,
}

/// A tool call in a conversation that people judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LabelledCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The result; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the tool ran and failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whether the tool did not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}
