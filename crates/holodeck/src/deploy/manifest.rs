//! Writes manifests as YAML. Every text is quoted, so that no value can become another type or a part of the structure.

use std::fmt::Write as _;

use serde_json::Value;

/// Adds fields to an object.
pub(super) fn merge(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

/// Documents of one file, each as its fields in order.
pub(super) fn yaml(comments: &[String], documents: &[Value]) -> String {
    let mut text = String::new();
    for line in comments {
        let _ = writeln!(text, "# {line}");
    }
    for (index, document) in documents.iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        block(&mut text, document, 0);
    }
    text
}

/// A mapping or a list, each entry on a line of its own.
fn block(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let _ = write!(text, "{indent}{}:", key(name));
                after_key(text, value, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                if is_block(item) {
                    // Its first line is that of the dash.
                    let mut inner = String::new();
                    block(&mut inner, item, depth + 1);
                    let first = inner.get(indent.len() + 2..).unwrap_or_default();
                    let _ = write!(text, "{indent}- {first}");
                } else {
                    let _ = writeln!(text, "{indent}- {item}");
                }
            }
        }
        other => {
            let _ = writeln!(text, "{indent}{other}");
        }
    }
}

fn after_key(text: &mut String, value: &Value, depth: usize) {
    if is_block(value) {
        text.push('\n');
        block(text, value, depth + 1);
    } else {
        // JSON is YAML.
        let _ = writeln!(text, " {value}");
    }
}

/// Whether a value is written on lines of its own: not if it is empty, or a list of a few plain values.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => {
            items.iter().any(|item| item.is_object() || item.is_array()) || items.len() > 4
        }
        _ => false,
    }
}

fn key(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
            .contains(&name.to_ascii_lowercase().as_str());
    if is_plain {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let document = json!({
            "name": "a: b", "empty": {}, "none": [], "few": [1, "x"],
            "on": true, "with space": "yes", "nested": {"list": [{"a": 1, "b": {"c": ["- x", "#y", "'z'"]}}, "t", [1, [2]]]},
            "many": ["a", "b", "c", "d", "\u{e9}\n\"q\""], "number": "0123", "dollar": "${X:-1}",
        });
        let text = yaml(
            &["A comment.".to_owned()],
            &[document.clone(), json!({"second": 2})],
        );
        let mut read = serde_yaml::Deserializer::from_str(&text)
            .map(|document| serde::Deserialize::deserialize(document).unwrap());
        assert_eq!(read.next(), Some(document), "{text}");
        assert_eq!(read.next(), Some(json!({"second": 2})));
        assert!(text.starts_with("# A comment.\n"));
    }
}
