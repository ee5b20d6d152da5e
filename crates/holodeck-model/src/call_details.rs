//! Facts about a tool call besides its result: why it did not run, what the tool is, and the passages that it
//! retrieved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{SideEffects, ToolKind};

/// Facts about a tool call besides its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "backends construct it with `..Default::default()`"
)]
pub struct CallDetails {
    /// Why the tool did not run; absent if it ran, with any result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<CallRefusal>,
    /// The kind of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Whether it may change something outside the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// The full names of other servers' tools with the same name within their server: the bare name alone is
    /// ambiguous.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namesakes: Vec<String>,
    /// The retrieved passages, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<Passage>,
    /// Whether the answer or a passage was masked in the recording it comes from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// Whether an agent that is not ours reports the call: HoloDeck did not see it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    /// Whether the answer was too long, and its end is missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl CallDetails {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The texts that come from tools.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let passages = self.passages.iter_mut();
        passages.flat_map(|passage| std::iter::once(&mut passage.text).chain(&mut passage.source))
    }
}

/// Why a call did not reach its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallRefusal {
    /// It was not approved.
    Rejected,
    /// The agent may not use the tool.
    NotAllowed,
    /// No such tool exists.
    Unknown,
    /// The arguments do not match its parameters.
    InvalidArguments,
}

impl CallRefusal {
    /// The words that a report shows after the name of the tool.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::NotAllowed => "not allowed",
            Self::Unknown => "no such tool",
            Self::InvalidArguments => "invalid arguments",
        }
    }
}

/// Something that a tool retrieved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Passage {
    /// The text.
    pub text: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How well it matches the query, on the scale of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl Passage {
    /// A passage with only a text.
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            source: None,
            score: None,
        }
    }
}
