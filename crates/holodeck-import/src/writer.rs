//! Writes values as YAML that people read and HoloDeck loads.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Stands before the name of an environment variable in a text: only the importer writes `${…}`, and what the source has
/// of it stays a text.
pub(crate) const VARIABLE_START: char = '\u{e000}';
/// Stands after the name.
pub(crate) const VARIABLE_END: char = '\u{e001}';

/// A text that is the value of an environment variable.
pub(crate) fn variable(name: &str) -> String {
    format!("{VARIABLE_START}{name}{VARIABLE_END}")
}

/// A mapping as a document, with comment lines before it.
pub(crate) fn document(comment: &[String], value: &Value) -> String {
    let mut text = String::new();
    for line in comment {
        let _ = writeln!(text, "# {line}");
    }
    block(&mut text, value, 0);
    text
}

fn block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => entries(text, map, indent, false),
        Value::Array(items) => list(text, items, indent),
        other => {
            let _ = writeln!(text, "{:indent$}{}", "", flow(other));
        }
    }
}

fn entries(text: &mut String, map: &Map<String, Value>, indent: usize, first_is_placed: bool) {
    for (index, (key, value)) in map.iter().enumerate() {
        let pad = if first_is_placed && index == 0 { 0 } else { indent };
        let _ = write!(text, "{:pad$}{}:", "", scalar(key));
        entry_value(text, value, indent);
    }
}

fn entry_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() && !is_short(value) => {
            text.push('\n');
            entries(text, map, indent + 2, false);
        }
        Value::Array(items) if !items.is_empty() && !is_short(value) => {
            text.push('\n');
            list(text, items, indent);
        }
        Value::String(content) if is_literal(content) => literal(text, content, indent + 2),
        other => {
            let _ = writeln!(text, " {}", flow(other));
        }
    }
}

fn list(text: &mut String, items: &[Value], indent: usize) {
    for item in items {
        let _ = write!(text, "{:indent$}- ", "");
        match item {
            Value::Object(map) if !map.is_empty() && !is_short(item) => {
                entries(text, map, indent + 2, true);
            }
            other => {
                let _ = writeln!(text, "{}", flow(other));
            }
        }
    }
}

/// Whether a list or mapping fits on a line.
fn is_short(value: &Value) -> bool {
    let is_flat = match value {
        Value::Object(map) => map.values().all(|value| !value.is_object()) && !map.contains_key("input"),
        Value::Array(items) => items.iter().all(|item| !item.is_object() && !item.is_array()),
        _ => true,
    };
    is_flat && flow(value).chars().count() <= 90
}

/// Whether a text is written line by line.
fn is_literal(text: &str) -> bool {
    let plain = |c: char| {
        c == '\n' || !(c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
    };
    text.trim_end_matches('\n').contains('\n')
        && text.chars().all(plain)
        && !text.starts_with([' ', '\n'])
        && text
            .lines()
            .all(|line| !line.ends_with(' ') && (line.is_empty() || !line.trim().is_empty()))
        && !text.ends_with("\n\n")
}

fn literal(text: &mut String, content: &str, indent: usize) {
    let head = if content.ends_with('\n') { "|" } else { "|-" };
    let _ = writeln!(text, " {head}");
    for line in finished(content).lines() {
        if line.is_empty() {
            text.push('\n');
        } else {
            let _ = writeln!(text, "{:indent$}{line}", "");
        }
    }
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), flow(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Without quotes only where every reader of YAML reads the same text.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_./- ()'".contains(c);
    let begins = text.starts_with(|c: char| c.is_alphabetic());
    let has_meaning = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "nan" | "inf"
    );
    if begins && !has_meaning && !text.ends_with(' ') && text.chars().all(plain) {
        text.to_owned()
    } else {
        // Every JSON string is a YAML string.
        Value::from(finished(text)).to_string()
    }
}

/// The text with its variables as `${NAME}`, and any `${` of the source as the text that it was.
fn finished(text: &str) -> String {
    text.replace("${", "$${")
        .replace(VARIABLE_START, "${")
        .replace(VARIABLE_END, "}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use holodeck_yaml::read_foreign;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_text_is_read_as_it_was() {
        let texts = [
            "plain",
            "true",
            "No",
            "1.5",
            "",
            " lead",
            "trail ",
            "a: b",
            "# no comment",
            "two\nlines",
            "two\nlines\n",
            "  in\ndent",
            "tab\there",
            "back\\slash \"quote\"",
            "é ß 漢",
            "- item",
            "* x",
            "line \nwith blank",
            "a\r\nb",
            "{{ template }}",
            "null",
            "0x1f",
            "2026-01-01",
            "a\n\nb",
            "\n",
            "[x]",
            "it's",
            "emoji 🙂",
        ];
        let map: Map<String, Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| (format!("k{index}"), json!(text)))
            .collect();
        let value = json!({"map": map, "list": texts, "deep": [{"input": "x", "a": [{"b": "two\nlines"}], "e": [], "m": {}}]});
        let text = document(&["a comment".to_owned()], &value);
        let read = read_foreign(Path::new("f.yaml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read.to_json(), value, "{text}");
    }

    #[test]
    fn only_the_importer_writes_variables() {
        let value = json!({"own": variable("KEY"), "theirs": "${KEY} and $${X}"});
        let text = document(&[], &value);
        assert!(text.contains("own: \"${KEY}\""), "{text}");
        assert!(text.contains("$${KEY} and $$${X}"), "{text}");
    }
}
