//! Observations of one binary, by the names of the rows.

use std::collections::BTreeMap;

use serde_json::Value;

/// How deep a message is described.
const DEPTH: usize = 4;

#[derive(Clone, Default)]
pub(super) struct Facts(BTreeMap<String, String>);

impl Facts {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a number and a text read alike at the caller"
    )]
    pub(super) fn set(&mut self, name: &str, found: impl ToString) {
        self.0.insert(name.to_owned(), found.to_string());
    }

    /// Notes the first of two words if it is so, else the second.
    pub(super) fn either(&mut self, name: &str, is_so: bool, [yes, no]: [&str; 2]) {
        self.set(name, if is_so { yes } else { no });
    }

    /// Notes the type of every field of a message, by its path below `name`.
    pub(super) fn shape(&mut self, name: &str, message: &Value) {
        self.shape_below(name, message, DEPTH);
    }

    fn shape_below(&mut self, path: &str, value: &Value, depth: usize) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            self.set(&path, type_of(value));
            if depth > 0 {
                self.shape_below(&path, value, depth - 1);
            }
        }
    }

    pub(super) fn found(&self, name: &str) -> &str {
        self.0.get(name).map_or("absent", String::as_str)
    }

    /// Whether it was looked at.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Texts as one cell.
pub(super) fn listed<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.as_ref().to_owned()).collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}

/// A text of a message, or nothing.
pub(super) fn text_at<'a>(message: &'a Value, pointer: &str) -> &'a str {
    message
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("absent")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Facts, listed};

    #[test]
    fn a_shape_is_one_fact_per_field() {
        let mut facts = Facts::default();
        facts.shape("result", &json!({"usage": {"input_tokens": 3}, "errors": ["x"]}));
        assert_eq!(facts.found("result.usage.input_tokens"), "number");
        assert_eq!(facts.found("result.errors"), "array");
        assert_eq!(facts.found("result.result"), "absent");
    }

    #[test]
    fn an_empty_list_is_named() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed([""; 0]), "none");
    }
}
