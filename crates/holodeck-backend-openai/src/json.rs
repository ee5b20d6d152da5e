//! Parses JSON that models and endpoints write, with unpaired surrogates and loose values mended.

pub(crate) use holodeck_model::long_integers as numbers;
use holodeck_model::{mend_json, tighten_json};
use serde_json::Value;

pub(crate) mod halves;

/// Whether a text may have what some servers write and JSON does not allow.
pub(crate) fn is_loose(text: &str) -> bool {
    text.bytes().any(|byte| byte < b' ') || text.contains("Infinity") || text.contains("NaN")
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
