//! Reads the values of assertions: texts, lists, schemas and counts, in the forms that promptfoo accepts.

use std::path::Path;

use holodeck_yaml::{ForeignValue, read_foreign};
use serde_json::{Value, json};

use super::patterns;
use crate::template::javascript_text;

/// The items of `a, "b, c"`.
pub(super) fn comma_separated(text: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if rest.is_empty() {
            return items;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut item = String::new();
            let mut letters = quoted.char_indices().peekable();
            let mut end = quoted.len();
            while let Some((at, letter)) = letters.next() {
                match (letter, letters.peek()) {
                    ('\\', Some((_, next @ ('"' | '\\')))) | ('"', Some((_, next @ '"'))) => {
                        item.push(*next);
                        letters.next();
                    }
                    ('"', _) => {
                        end = at + 1;
                        break;
                    }
                    _ => item.push(letter),
                }
            }
            items.push(item);
            rest = quoted.get(end..).unwrap_or_default();
        } else {
            let (item, after) = rest.split_once(',').unwrap_or((rest, ""));
            items.push(item.trim().to_owned());
            rest = after;
        }
    }
}

/// The texts of `similar`, of which the closest decides.
pub(super) fn similar_texts(value: &Value, is_scored: bool) -> Result<Value, String> {
    match value {
        Value::Array(items) if items.len() > 1 => {
            if is_scored {
                return Err(
                    "the score of several texts is another one there, and scores decide this test".to_owned(),
                );
            }
            let texts: Result<Vec<Value>, String> = items
                .iter()
                .map(|item| not_blank(text(item)?).map(Value::from))
                .collect();
            texts.map(Value::Array)
        }
        Value::Array(items) => match items.as_slice() {
            [item] => similar_texts(item, is_scored),
            _ => Err("its `value` is an empty list".to_owned()),
        },
        value => not_blank(text(value)?).map(Value::from),
    }
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Err("it has no `value`".to_owned()),
        _ => Err("its `value` is not a text".to_owned()),
    }
}

/// A text or number that is not empty, as promptfoo demands it.
pub(super) fn filled(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::Number(_) => javascript_text(value),
        value => text(value)?,
    };
    not_blank(text)
}

pub(super) fn not_blank(text: String) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("its `value` is empty".to_owned())
    } else {
        Ok(text)
    }
}

pub(super) fn texts(value: &Value) -> Result<Vec<String>, String> {
    let texts = match value {
        Value::Array(items) => items.iter().map(javascript_text).collect(),
        Value::String(text) => comma_separated(text),
        _ => return Err("its `value` is not a list".to_owned()),
    };
    if texts.is_empty() || texts.iter().any(String::is_empty) {
        return Err("an empty text, which every answer contains".to_owned());
    }
    Ok(texts)
}

/// `ß` equals `ss` where HoloDeck ignores case, and not in JavaScript.
fn folds_otherwise(text: &str) -> bool {
    !text.is_ascii() || text.to_ascii_lowercase().contains("ss")
}

pub(super) fn ignoring_case(text: &str) -> Value {
    if folds_otherwise(text) {
        json!({"metric": "regex", "value": patterns::literal(text), "case_insensitive": true})
    } else {
        json!({"metric": "icontains", "value": text})
    }
}

/// The schema of `is-json`: a mapping, or one as a text of YAML.
pub(super) fn schema(value: &Value) -> Result<Option<Value>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(value.clone())),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => {
            let read =
                read_foreign(Path::new("value"), text).map_err(|error| format!("its schema: {error}"))?;
            match read.value {
                ForeignValue::Map(_) => Ok(Some(read.to_json())),
                _ => Err("its schema is not a mapping".to_owned()),
            }
        }
        _ => Err("its schema is not a mapping".to_owned()),
    }
}

/// Sets a field of a mapping.
pub(super) fn set_field(mapping: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = mapping {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The whole part of a number that is not negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the callers refuse negative numbers, and `as` takes the largest number for a larger one"
)]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}

pub(super) fn word_count(value: &Value) -> Result<Value, String> {
    let count = |value: &Value| {
        let number = match value {
            Value::String(text) => text.trim().parse::<f64>().ok(),
            value => value.as_f64(),
        };
        number
            .filter(|number| *number >= 0.0 && number.fract() == 0.0)
            .map(whole)
    };
    let mut metric = json!({"metric": "word_count"});
    match value {
        Value::Object(map) => {
            for key in ["min", "max"] {
                if let Some(value) = map.get(key) {
                    let number = count(value).ok_or("`min` and `max` are not whole numbers")?;
                    set_field(&mut metric, key, number);
                }
            }
        }
        value => {
            let number = count(value).ok_or("its `value` is not a whole number")?;
            set_field(&mut metric, "min", number);
            set_field(&mut metric, "max", number);
        }
    }
    if metric.get("min").is_none() && metric.get("max").is_none() {
        return Err("it has neither `min` nor `max`".to_owned());
    }
    Ok(metric)
}

pub(super) fn ignoring_any(texts: &[String]) -> Value {
    if texts.iter().any(|text| folds_otherwise(text)) {
        let parts: Vec<String> = texts.iter().map(|text| patterns::literal(text)).collect();
        json!({"metric": "regex", "value": parts.join("|"), "case_insensitive": true})
    } else {
        json!({"metric": "contains_any", "value": texts, "case_insensitive": true})
    }
}

pub(super) fn ignoring_all(texts: &[String]) -> Value {
    if texts.iter().any(|text| folds_otherwise(text)) {
        let part = |text: &String| format!("(?=[\\s\\S]*{})", patterns::literal(text));
        let parts: Vec<String> = texts.iter().map(part).collect();
        json!({"metric": "regex", "value": format!("^{}", parts.concat()), "case_insensitive": true})
    } else {
        json!({"metric": "contains_all", "value": texts, "case_insensitive": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_items_may_have_commas() {
        assert_eq!(comma_separated(r#" a, "b, ""c""" ,, d "#), ["a", "b, \"c\"", "d"]);
        assert!(comma_separated(" , ").is_empty());
    }
}
