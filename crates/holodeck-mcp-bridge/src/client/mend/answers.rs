//! Mends the handshake and the lists of a server.

use holodeck_model::json_kind;
use rmcp::model::ServerCapabilities;
use serde_json::{Value, json};

use super::tools::Entry;
use super::{Faults, Fields, remove_null, settle, text_of};

/// The first revision of the protocol, for servers that do not name one.
const FIRST_REVISION: &str = "2024-11-05";

/// Makes a handshake complete: a name, a version and capabilities are for people, and no reason to refuse a server.
pub(super) fn of_handshake(result: &mut Fields, faults: &mut Faults) {
    if !result.get("protocolVersion").is_some_and(Value::is_string) {
        faults.push(format!(
            "`protocolVersion` of its handshake is missing; {FIRST_REVISION} is assumed"
        ));
        result.insert("protocolVersion".to_owned(), FIRST_REVISION.into());
    }
    let capabilities = result.entry("capabilities").or_insert(Value::Null);
    match capabilities {
        Value::Object(capabilities) => capabilities.retain(|name, capability| {
            let is_read = capability.is_object();
            if !is_read && !capability.is_null() {
                faults.push(format!(
                    "`capabilities.{name}` is {}, not an object",
                    json_kind(capability)
                ));
            }
            // What is true or a list is offered all the same.
            if !is_read && !matches!(capability, Value::Null | Value::Bool(false)) {
                *capability = json!({});
                return true;
            }
            is_read
        }),
        other => *other = json!({}),
    }
    if let Some(capabilities) = result.get_mut("capabilities").and_then(Value::as_object_mut) {
        for name in ["tools", "prompts", "resources"] {
            if let Some(capability) = capabilities.get_mut(name).and_then(Value::as_object_mut) {
                capability.retain(|_, value| value.is_boolean());
            }
        }
        for name in settle::<ServerCapabilities>(capabilities, &[]).unwrap_or_default() {
            faults.push(format!("`capabilities.{name}` cannot be read and is left out"));
        }
    }
    let server = result.entry("serverInfo").or_insert(Value::Null);
    if !server.is_object() {
        *server = json!({ "name": if server.is_string() { text_of(server) } else { String::new() } });
    }
    if let Some(server) = server.as_object_mut() {
        for field in ["name", "version"] {
            let value = server.entry(field).or_insert(Value::Null);
            *value = match value {
                Value::String(text) => Value::String(std::mem::take(text)),
                Value::Number(number) => number.to_string().into(),
                _ => "".into(),
            };
        }
        server.retain(|field, value| matches!(field.as_str(), "name" | "version") || is_known(field, value));
    }
    result.retain(|field, value| field != "instructions" || value.is_string());
}

fn is_known(field: &str, value: &Value) -> bool {
    matches!(field, "title" | "websiteUrl" | "description") && value.is_string()
}

/// Mends a page of tools or prompts. An entry that cannot be used is left out and named.
pub(super) fn of_lists(result: &mut Fields, entry: Entry, faults: &mut Faults) {
    remove_null(result, "nextCursor");
    if let Some(cursor) = result.get_mut("nextCursor").filter(|cursor| !cursor.is_string()) {
        *cursor = text_of(cursor).into();
    }
    let list = result.remove(entry.list()).unwrap_or_default();
    let entries = match list {
        Value::Array(entries) => entries,
        // A single entry without its list.
        entry @ Value::Object(_) => vec![entry],
        other => {
            faults.push(format!("`{}` of its list is {}", entry.list(), json_kind(&other)));
            Vec::new()
        }
    };
    let entries = entries.into_iter().enumerate();
    let entries: Vec<Value> = entries
        .filter_map(|(index, value)| entry.mend(value, index, faults))
        .collect();
    result.insert(entry.list().to_owned(), entries.into());
    // The lists have nothing else that is read.
    result.retain(|field, _| matches!(field.as_str(), "tools" | "prompts" | "nextCursor"));
}
