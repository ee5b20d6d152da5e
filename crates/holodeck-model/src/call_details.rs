use serde::{Deserialize, Serialize};

use crate::{Redactor, SideEffects, ToolKind};

/// What is known of a tool call beside its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "backends fill it in with `..Default::default()`"
)]
pub struct CallDetails {
    /// Why the tool did not run; absent when it ran, whatever came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<CallRefusal>,
    /// What the tool is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Whether it changes the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// What it retrieved, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<Passage>,
}

impl CallDetails {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Masks secrets in it.
    pub fn redact(&mut self, redactor: &Redactor) {
        for passage in &mut self.passages {
            passage.text = redactor.text(&passage.text).into_owned();
            if let Some(source) = &mut passage.source {
                *source = redactor.text(source).into_owned();
            }
        }
    }
}

/// Why a call did not reach its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallRefusal {
    /// It was not approved.
    Rejected,
    /// The agent may not use the tool.
    NotAllowed,
    /// There is no such tool.
    Unknown,
    /// The arguments do not fit its parameters.
    InvalidArguments,
}

impl CallRefusal {
    /// In words, as a report puts them behind the name of the tool.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The text.
    pub text: String,
    /// Where it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How well it fits the query, in the measure of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl Passage {
    /// A passage of which only the text is known.
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            source: None,
            score: None,
        }
    }
}
