use holodeck_model::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A passage that can be found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// Unique in its index, and the same for the same text at the same place.
    pub id: String,
    /// What it came from, as people name it: a path relative to the agent's file, or a URL.
    pub source: String,
    /// Its text as it is shown.
    pub text: String,
    /// Where in the document it belongs, in a model's words; embedded with the text, not shown.
    pub context: Option<String>,
    /// What may be filtered by and is shown with it: `headings`, `section`, `page`, `slide`, `sheet`, `start`, `end`,
    /// `definitions`, `references`, and the `meta_fields` of records.
    pub metadata: JsonMap,
}

/// A passage and its vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The passage.
    pub passage: Passage,
    /// Its vector, of length 1.
    pub vector: Vec<f32>,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Greater is better; what it means depends on the search.
    pub score: f64,
    /// The passage.
    pub passage: Passage,
}

/// A source as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// As in [`Passage::source`].
    pub source: String,
    /// Hash of its content and of all that decides how it is cut up.
    pub hash: String,
    /// How many passages it came to.
    pub passages: usize,
}

/// What a passage's metadata must be. An empty filter lets everything through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Each field must equal its value; `source` is [`Passage::source`].
    pub equal: Vec<(String, Value)>,
}
