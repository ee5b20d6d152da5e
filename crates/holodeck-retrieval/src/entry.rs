//! Passages with their vectors, the sources they come from, and filters on them.

use std::cmp::Ordering;

use holodeck_model::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A passage in an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// Unique in its index, and stable for the same text at the same place.
    pub id: String,
    /// Its origin, as people name it: a path relative to the agent's file, or a URL.
    pub source: String,
    /// The text that is shown.
    pub text: String,
    /// Its place in the document as described by a model; embedded with the text, not shown.
    pub context: Option<String>,
    /// Fields for filtering and display: `headings`, `section`, `page`, `slide`, `sheet`, `start`, `end`,
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

/// A search result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Greater is better; the scale depends on the search.
    pub score: f64,
    /// The passage.
    pub passage: Passage,
}

/// The state of a source in the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// As in [`Passage::source`].
    pub source: String,
    /// Hash of its content and of everything that determines how it is split.
    pub hash: String,
    /// Number of its passages.
    pub passages: usize,
}

/// Conditions on a passage's metadata. An empty filter accepts every passage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Each field must equal its value; `source` is [`Passage::source`].
    pub equal: Vec<(String, Value)>,
}

impl Filter {
    /// The filter field that refers to [`Passage::source`] instead of the metadata.
    pub(crate) const SOURCE: &'static str = "source";

    /// Whether a passage matches.
    pub fn matches(&self, passage: &Passage) -> bool {
        self.passes(&passage.source, |field| passage.metadata.get(field))
    }

    /// As [`matches`](Self::matches), for callers that hold only these parts of a passage.
    pub(crate) fn passes<'a>(&self, source: &str, metadata: impl Fn(&str) -> Option<&'a Value>) -> bool {
        self.equal.iter().all(|(field, wanted)| {
            if field == Self::SOURCE {
                return wanted.as_str() == Some(source);
            }
            metadata(field).is_some_and(|found| equal_values(found, wanted))
        })
    }
}

/// Equal as JSON values; `1` and `1.0` are the same number.
fn equal_values(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => {
            found == wanted
                || found
                    .as_f64()
                    .zip(wanted.as_f64())
                    .is_some_and(|(a, b)| a.partial_cmp(&b).is_some_and(Ordering::is_eq))
        }
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Filter, Passage};

    fn passes(field: &str, wanted: Value) -> bool {
        let Value::Object(metadata) =
            json!({"page": 3, "sheet": "Sales", "source": "elsewhere", "none": null})
        else {
            unreachable!()
        };
        let passage = Passage {
            id: "1".to_owned(),
            source: "docs/a.md".to_owned(),
            text: String::new(),
            context: None,
            metadata,
        };
        let equal = vec![(field.to_owned(), wanted)];
        Filter { equal }.matches(&passage)
    }

    #[test]
    fn a_field_must_be_there_and_equal() {
        assert!(passes("page", json!(3)));
        assert!(passes("page", json!(3.0)));
        assert!(!passes("page", json!("3")));
        assert!(passes("sheet", json!("Sales")));
        assert!(!passes("sheet", json!("sales")));
        assert!(passes("none", json!(null)));
        assert!(!passes("missing", json!(null)));
    }

    #[test]
    fn the_source_is_the_passages_own() {
        assert!(passes("source", json!("docs/a.md")));
        assert!(!passes("source", json!("elsewhere")));
        assert!(Filter::default().equal.is_empty());
    }
}
