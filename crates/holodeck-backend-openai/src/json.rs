//! Parses JSON that models and endpoints write, with unpaired surrogates and loose values mended.

use std::fmt::Write as _;

pub(crate) use holodeck_model::long_integers as numbers;
use holodeck_model::{mend_json, parse_json_strictly};
use serde_json::Value;

pub(crate) mod halves;

/// Whether a text may have what some servers write and JSON does not allow.
pub(crate) fn is_loose(text: &str) -> bool {
    text.bytes().any(|byte| byte < b' ') || text.contains("Infinity") || text.contains("NaN")
}

/// Writes raw control characters in strings as escapes, and numbers that JSON does not have as `null`.
pub(crate) fn tighten_json(text: &str) -> String {
    let mut tight = String::with_capacity(text.len() + 8);
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !in_string {
            let word = ["-Infinity", "Infinity", "NaN"]
                .iter()
                .find(|word| rest.starts_with(**word));
            if let Some(word) = word {
                tight.push_str("null");
                rest = rest.get(word.len()..).unwrap_or_default();
                continue;
            }
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            c if in_string && u32::from(c) < 0x20 => {
                // Writing to a string does not fail.
                let _ = write!(tight, "\\u{:04x}", u32::from(c));
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                escaped = false;
                continue;
            }
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
        tight.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    tight
}

/// Parses JSON, even if it contains unpaired surrogates.
pub(crate) fn parse_lenient(json: &[u8]) -> Option<Value> {
    let strict = serde_json::from_slice(json).ok();
    strict
        .or_else(|| serde_json::from_str(&mend_json(json)?).ok())
        .or_else(|| serde_json::from_str(&tighten_json(std::str::from_utf8(json).ok()?)).ok())
}

/// Parses JSON of a server to be shown to a person, without any mark of this crate: an unpaired surrogate is U+FFFD, and an
/// integer that a value cannot hold is the text of its digits.
pub(crate) fn parse_shown(json: &str) -> Option<Value> {
    let wrapped = numbers::wrap(json);
    let mut value = parse_lenient(wrapped.as_deref().unwrap_or(json).as_bytes())?;
    if wrapped.is_some() {
        numbers::spell(&mut value);
    }
    Some(value)
}

/// Parses JSON that decides about a verdict, even if it contains unpaired surrogates or raw control characters in a text. A
/// key that appears twice in an object is an error.
pub(crate) fn parse_deciding(json: &str) -> serde_json::Result<Value> {
    parse_json_strictly(json).or_else(|error| {
        let mended = mend_json(json.as_bytes()).and_then(|mended| parse_json_strictly(&mended).ok());
        // What JSON does not know as a number stays an error.
        let has_only_text = || !json.contains("Infinity") && !json.contains("NaN");
        let tight = || {
            has_only_text()
                .then(|| parse_json_strictly(&tighten_json(json)).ok())
                .flatten()
        };
        mended.or_else(tight).ok_or(error)
    })
}
