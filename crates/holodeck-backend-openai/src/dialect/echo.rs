//! Fields of an assistant message that its server wants back unchanged: collects them from the pieces of a stream, and puts
//! them into a later request. It does not know what they mean.

use holodeck_backend_api::{ProviderFields, ToolCall};
use serde_json::{Map, Value};

use crate::wire::is_opaque;

/// Fields whose repetition is the same value again and not its continuation.
const WHOLE: [&str; 10] = [
    "id",
    "type",
    "role",
    "name",
    "format",
    "index",
    "model",
    "object",
    "signature",
    "thought_signature",
];

/// Fields whose text comes in pieces.
const TEXTS: [&str; 9] = [
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "content",
    "text",
    "thinking",
    "summary",
    "data",
    "arguments",
];

/// Fields of a call that every server knows.
const KNOWN_OF_CALLS: [&str; 4] = ["index", "id", "type", "function"];

/// Adds the fields of another piece of the same message or call.
pub(crate) fn merge_fields(fields: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        if value.is_null() {
            continue;
        }
        match fields.get_mut(&name) {
            Some(known) => merge(&name, known, value),
            None => {
                fields.insert(name, value);
            }
        }
    }
}

/// Continues a value: text and lists grow, and a later value replaces anything else.
fn merge(name: &str, known: &mut Value, more: Value) {
    match (known, more) {
        (Value::String(text), Value::String(more)) if !WHOLE.contains(&name) => {
            // Some servers repeat a field with each piece; only of the texts that come in pieces two may be the same.
            let is_repeated = *text == more && !TEXTS.contains(&name) && !more.trim().is_empty();
            if !is_repeated {
                text.push_str(&more);
            }
        }
        (Value::Object(known), Value::Object(more)) => merge_fields(known, more),
        (Value::Array(known), Value::Array(more)) => {
            for entry in more {
                merge_entry(name, known, entry);
            }
        }
        (_, Value::Null) => {}
        (known, more) => *known = more,
    }
}

/// Continues the entry of a list with the same `index` and `type`; parts of a message's content, which have no index,
/// continue the last one if both are of a kind.
fn merge_entry(list: &str, known: &mut Vec<Value>, entry: Value) {
    let kind = |entry: &Value| entry.get("type").cloned();
    let is_one_kind =
        |known: &Value| kind(&entry).is_none() || kind(known).is_none() || kind(known) == kind(&entry);
    let place = match entry.get("index").filter(|index| index.is_number()) {
        Some(index) => known
            .iter()
            .position(|known| known.get("index") == Some(index) && is_one_kind(known)),
        None if PARTS.contains(&list) => known
            .len()
            .checked_sub(1)
            .filter(|last| known.get(*last).map(kind) == Some(kind(&entry)) && entry.is_object()),
        None => None,
    };
    match place.and_then(|place| known.get_mut(place)) {
        Some(known) => merge(list, known, entry),
        None => known.push(entry),
    }
}

/// Lists of parts of a text.
const PARTS: [&str; 3] = ["content", "thinking", "reasoning"];

/// Adds what must go back with the calls of a message: the fields of the message with the first of them.
pub(crate) fn attach(calls: &mut [ToolCall], mut message: Map<String, Value>) {
    drop_empty(&mut message);
    let Some(first) = calls.first_mut() else { return };
    if !message.is_empty() {
        first.provider_fields.get_or_insert_default().message = message;
    }
}

/// The fields of a call that must go back with it.
pub(crate) fn of_call(mut fields: Map<String, Value>) -> Option<Box<ProviderFields>> {
    // Of the function, only what it has beside name and arguments is here.
    fields.retain(|name, _| name == "function" || !KNOWN_OF_CALLS.contains(&name.as_str()));
    drop_empty(&mut fields);
    (!fields.is_empty()).then(|| {
        Box::new(ProviderFields {
            call: fields,
            ..ProviderFields::default()
        })
    })
}

/// Removes what says nothing. An empty text does: some servers want it back.
fn drop_empty(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
}

/// Puts the fields into an assistant message with `calls`, if `model` sent them.
pub(crate) fn restore(message: &mut Value, calls: &[ToolCall], model: &str) {
    let own = |call: &ToolCall| {
        let fields = call.provider_fields.as_deref();
        fields.filter(|fields| fields.model == model).cloned()
    };
    for (place, call) in calls.iter().enumerate() {
        let Some(fields) = own(call) else { continue };
        if let Some(sent) = message
            .get_mut("tool_calls")
            .and_then(|calls| calls.get_mut(place))
        {
            extend(sent, fields.call);
        }
        extend(message, fields.message);
    }
}

fn extend(object: &mut Value, fields: Map<String, Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    for (name, value) in fields {
        match object.get_mut(&name).and_then(Value::as_object_mut) {
            Some(known) => {
                for (name, value) in value.as_object().cloned().unwrap_or_default() {
                    known.entry(name).or_insert(value);
                }
            }
            None => {
                object.insert(name, value);
            }
        }
    }
}

/// Removes the fields from all messages of a request, for a server or model that refuses them.
pub(crate) fn strip(body: &mut Value) {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let Some(message) = message.as_object_mut() else {
            continue;
        };
        if message.get("role").and_then(Value::as_str) != Some("assistant") {
            continue;
        }
        message.retain(|name, _| !is_opaque(name) || name == "name");
        if let Some(Value::Array(parts)) = message.get("content") {
            let text: String = parts
                .iter()
                .filter_map(|part| part.get("text")?.as_str())
                .collect();
            message.insert("content".to_owned(), Value::from(text));
        }
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            call.retain(|name, _| KNOWN_OF_CALLS.contains(&name.as_str()));
            if let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) {
                function.retain(|name, _| ["name", "arguments"].contains(&name.as_str()));
            }
        }
    }
}

/// Whether a text names one of the fields of a request.
pub(crate) fn is_named(body: &Value, text: &str) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let own = messages
        .into_iter()
        .flatten()
        .filter(|message| message.get("role").and_then(Value::as_str) == Some("assistant"))
        .filter_map(Value::as_object);
    let mut names = own
        .flat_map(|message| message.keys())
        .filter(|name| is_opaque(name));
    names.any(|name| text.contains(&name.to_lowercase()))
}

/// Whether a request has such fields. It is asked for every call, so it copies nothing.
pub(crate) fn has_fields(body: &Value) -> bool {
    let others = |object: Option<&Value>, known: &[&str]| {
        let object = object.and_then(Value::as_object);
        object.is_some_and(|object| object.keys().any(|name| !known.contains(&name.as_str())))
    };
    let messages = body.get("messages").and_then(Value::as_array);
    let mut answers = messages
        .into_iter()
        .flatten()
        .filter(|message| message.get("role").and_then(Value::as_str) == Some("assistant"));
    answers.any(|message| {
        let mut names = message.as_object().into_iter().flatten().map(|(name, _)| name);
        let calls = message.get("tool_calls").and_then(Value::as_array);
        names.any(|name| is_opaque(name) && name != "name")
            || message.get("content").is_some_and(Value::is_array)
            || calls.into_iter().flatten().any(|call| {
                others(Some(call), &KNOWN_OF_CALLS) || others(call.get("function"), &["name", "arguments"])
            })
    })
}

#[cfg(test)]
mod tests;
