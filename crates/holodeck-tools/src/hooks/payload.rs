//! The input of a hook: one JSON object, with the names of Claude Code's own hooks.
//!
//! Secrets are masked, and long texts are cut.

use holodeck_model::{HookEvent, Redactor};
use serde_json::Value;

/// The longest text in an event.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The line for an event with these fields.
pub(super) fn bytes(mut payload: Value, event: HookEvent, folder: &str, redactor: &Redactor) -> Vec<u8> {
    // First, so that no part of a secret is left at the end of a text that is cut.
    redactor.value(&mut payload);
    let is_cut = cut(&mut payload);
    if let Some(fields) = payload.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.insert("hook_event_name".to_owned(), event.as_str().into());
        fields.insert("cwd".to_owned(), folder.into());
        if is_cut {
            fields.insert("truncated".to_owned(), true.into());
        }
    }
    format!("{payload}\n").into_bytes()
}

/// Cuts every long text; whether there was one.
fn cut(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => {
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |is_cut, item| cut(item) | is_cut),
        Value::Object(fields) => fields.values_mut().fold(false, |is_cut, item| cut(item) | is_cut),
        _ => false,
    }
}
