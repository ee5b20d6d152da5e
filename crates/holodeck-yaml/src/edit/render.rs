//! Renders an item as YAML text.

use std::fmt::Write as _;

use holodeck_model::{JsonMap, is_hidden};
use serde_json::Value;

use crate::yaml::{Core, legacy_reading, resolve};

/// The lines of an item of a block list with its `-` in `column`.
pub(super) fn block_item(item: &JsonMap, column: usize) -> String {
    let mut text = String::new();
    for (index, (key, value)) in item.iter().enumerate() {
        let lead = if index == 0 { "- " } else { "  " };
        // Writing to a string can't fail.
        let _ = match value {
            Value::Object(map) if !map.is_empty() => {
                let _ = writeln!(text, "{:column$}{lead}{}:", "", scalar(key));
                map.iter().try_for_each(|(key, value)| {
                    writeln!(text, "{:column$}    {}: {}", "", scalar(key), inline(value))
                })
            }
            value => match mappings(value) {
                Some(items) => {
                    let written = writeln!(text, "{:column$}{lead}{}:", "", scalar(key));
                    text.extend(items.into_iter().map(|item| block_item(item, column + 4)));
                    written
                }
                None => writeln!(text, "{:column$}{lead}{}: {}", "", scalar(key), inline(value)),
            },
        };
    }
    text
}

/// The items of a list that has only mappings; `None` if the value is not one.
fn mappings(value: &Value) -> Option<Vec<&JsonMap>> {
    let items: Option<Vec<_>> = value.as_array()?.iter().map(Value::as_object).collect();
    items.filter(|items| !items.is_empty() && items.iter().all(|item| !item.is_empty()))
}

/// An item on one line.
pub(super) fn flow_item(item: &JsonMap) -> String {
    inline(&Value::Object(item.clone()))
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), inline(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Without quotes if the text can't be read as anything but a string.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-@ ()'".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_text = matches!(resolve(text), Core::Str) && legacy_reading(text).is_none();
    if begins && is_text && !text.ends_with(' ') && text.chars().all(plain) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// A JSON string, which is a YAML string, with hidden characters as escapes: YAML allows not all of them, reads some as the end
/// of a line, and a reader would not see them.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    for c in Value::from(text).to_string().chars() {
        // Writing to a string can't fail.
        let _ = match u32::from(c) {
            _ if !is_hidden(c) => {
                quoted.push(c);
                Ok(())
            }
            code @ 0..=0xffff => write!(quoted, "\\u{code:04x}"),
            code => write!(quoted, "\\U{code:08x}"),
        };
    }
    quoted
}
