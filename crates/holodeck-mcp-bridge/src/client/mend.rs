//! Mends the messages of a server, so that a fault costs one tool or one part and not the server.
//!
//! A pure function of a message and of the request that it answers: null counts as absent, what can be read one way is read, and
//! what cannot is left out and named. It must not invent content.

mod answers;
mod parts;
mod tools;

use holodeck_model::{JSON_LEVELS, json_kind, json_levels};
use serde_json::{Map, Value, json};

use self::answers::{of_handshake, of_lists};
use self::parts::{of_call, of_prompt};
use self::tools::Entry;

/// The request that an answer belongs to, as far as its answer has a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Initialize,
    Tools,
    Prompts,
    Call,
    Prompt,
    Other,
}

/// Faults of a message in words, for a person. Each names the field.
pub(crate) type Faults = Vec<String>;

pub(super) type Fields = Map<String, Value>;

/// Mends a message. `asked` finds the request of an answer by its id.
pub(crate) fn mend(message: &mut Value, asked: impl FnOnce(&Value) -> Option<Asked>, faults: &mut Faults) {
    let Some(fields) = message.as_object_mut() else {
        return;
    };
    for field in ["error", "params", "method"] {
        remove_null(fields, field);
    }
    fields
        .entry("jsonrpc")
        .and_modify(|version| *version = "2.0".into())
        .or_insert_with(|| "2.0".into());
    if fields.contains_key("method") {
        // A request without an id is a notification.
        remove_null(fields, "id");
        return;
    }
    let has_result = fields.get("result").is_some_and(|result| !result.is_null());
    if let Some(error) = fields.get_mut("error") {
        mend_error(error);
        // An error beside a result: the error counts.
        fields.remove("result");
        if let Some(id) = fields.get_mut("id") {
            mend_id(id);
        }
        return;
    }
    let Some(id) = fields.get_mut("id") else {
        return;
    };
    mend_id(id);
    let asked = asked(id).unwrap_or(Asked::Other);
    if !has_result {
        fields.remove("result");
        fields.insert(
            "error".to_owned(),
            no_result("it has neither `result` nor `error`"),
        );
        return;
    }
    let Some(result) = fields.get_mut("result") else {
        return;
    };
    let mended = match (asked, result) {
        (_, Value::Object(result)) => of_result(asked, result, faults),
        (Asked::Call, other) => {
            // A bare value in place of a result is its content.
            let content = other.take();
            *other = json!({ "content": content });
            other
                .as_object_mut()
                .map_or(Ok(()), |result| of_call(result, faults))
        }
        (Asked::Other, _) => Ok(()),
        (_, other) => Err(format!("`result` is {}, not an object", json_kind(other))),
    };
    if let Err(reason) = mended {
        fields.remove("result");
        fields.insert("error".to_owned(), no_result(&reason));
    }
}

fn of_result(asked: Asked, result: &mut Fields, faults: &mut Faults) -> Result<(), String> {
    remove_null(result, "_meta");
    match asked {
        Asked::Initialize => of_handshake(result, faults),
        Asked::Tools => of_lists(result, Entry::Tool, faults),
        Asked::Prompts => of_lists(result, Entry::Prompt, faults),
        // The server asks for something before it answers.
        Asked::Call if result.get("resultType").and_then(Value::as_str) == Some("input_required") => {}
        Asked::Call => return of_call(result, faults),
        Asked::Prompt => of_prompt(result, faults),
        Asked::Other => {}
    }
    Ok(())
}

/// The error of an answer that cannot be read.
pub(crate) fn no_result(reason: &str) -> Value {
    const INVALID: i64 = -32603;
    json!({ "code": INVALID, "message": format!("its answer cannot be read: {reason}") })
}

/// Our ids are numbers.
fn mend_id(id: &mut Value) {
    let number = match &*id {
        Value::String(text) => text.trim().parse::<u64>().ok(),
        Value::Number(number) if !number.is_u64() => number.as_f64().and_then(whole),
        _ => None,
    };
    if let Some(number) = number {
        *id = number.into();
    }
}

fn mend_error(error: &mut Value) {
    const INTERNAL: i64 = -32603;
    let Some(fields) = error.as_object_mut() else {
        let text = text_of(error);
        *error = json!({ "code": INTERNAL, "message": text });
        return;
    };
    let code = fields.get("code").and_then(|code| match code {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole_signed)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    });
    let code = code
        .and_then(|code| i32::try_from(code).ok())
        .map_or(INTERNAL, i64::from);
    let message = match fields.get("message") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => Value::Object(fields.clone()).to_string(),
        Some(other) => text_of(other),
    };
    fields.insert("code".to_owned(), code.into());
    fields.insert("message".to_owned(), message.into());
    remove_null(fields, "data");
}

fn whole(number: f64) -> Option<u64> {
    whole_signed(number).and_then(|number| u64::try_from(number).ok())
}

fn whole_signed(number: f64) -> Option<i64> {
    format!("{number}").parse().ok()
}

/// Removes a field that is null.
pub(super) fn remove_null(fields: &mut Fields, field: &str) {
    if fields.get(field).is_some_and(Value::is_null) {
        fields.remove(field);
    }
}

/// Whether a value has more levels than may be passed on.
pub(super) fn is_deep(value: &Value) -> bool {
    json_levels(value) > JSON_LEVELS
}

/// The fault of such a value.
pub(super) fn too_deep() -> String {
    format!("has more than {JSON_LEVELS} levels")
}

/// A value as text: a string as it is, anything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Leaves out optional fields that cannot be read until the rest can, and returns their names.
pub(super) fn settle<T: serde::de::DeserializeOwned>(
    fields: &mut Fields,
    needed: &[&str],
) -> Result<Vec<String>, String> {
    fields.retain(|field, value| needed.contains(&field.as_str()) || !value.is_null());
    let Err(error) = serde_json::from_value::<T>(Value::Object(fields.clone())) else {
        return Ok(Vec::new());
    };
    let optional = |field: &&String| !needed.contains(&field.as_str());
    let names: Vec<String> = fields.keys().filter(optional).cloned().collect();
    let mut bare = fields.clone();
    bare.retain(|field, _| needed.contains(&field.as_str()));
    if serde_json::from_value::<T>(Value::Object(bare.clone())).is_err() {
        return Err(error.to_string());
    }
    let mut dropped = Vec::new();
    for name in names {
        let Some(value) = fields.get(&name) else { continue };
        let mut with = bare.clone();
        with.insert(name.clone(), value.clone());
        if serde_json::from_value::<T>(Value::Object(with.clone())).is_ok() {
            bare = with;
        } else {
            dropped.push(name);
        }
    }
    *fields = bare;
    Ok(dropped)
}

#[cfg(test)]
mod tests;
