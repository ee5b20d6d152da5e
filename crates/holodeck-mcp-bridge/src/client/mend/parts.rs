//! Mends the results of calls and prompts, part by part.

use holodeck_model::json_kind;
use rmcp::model::ContentBlock;
use serde_json::{Value, json};

use super::{Faults, Fields, is_deep, remove_null, settle, text_of, too_deep};

/// Mends the result of a call. An error if nothing of it can be read.
pub(super) fn of_call(result: &mut Fields, faults: &mut Faults) -> Result<(), String> {
    for field in ["structuredContent", "isError", "resultType"] {
        remove_null(result, field);
    }
    let mut lost = Vec::new();
    let is_structure_deep = result.get("structuredContent").is_some_and(is_deep);
    if is_structure_deep {
        lost.push(format!("`structuredContent` of a result {}", too_deep()));
        result.remove("structuredContent");
    }
    let content = result.remove("content").unwrap_or_default();
    let content = list_of(content);
    let count = content.len();
    let parts: Vec<Value> = content
        .into_iter()
        .enumerate()
        .map(|(index, value)| part(value, &format!("content[{index}]"), &mut lost))
        .collect();
    let is_nothing_read = !lost.is_empty()
        && lost.len() == count + usize::from(is_structure_deep)
        && !result.contains_key("structuredContent");
    if is_nothing_read {
        return Err(lost.join("; "));
    }
    faults.append(&mut lost);
    result.insert("content".to_owned(), parts.into());
    if let Some(flag) = result.get_mut("isError") {
        let read = match &*flag {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" | "" => Some(false),
                _ => None,
            },
            Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
            Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
            _ => None,
        };
        if read.is_none() {
            faults.push(format!(
                "`isError` of a result is {}, not a boolean; the result counts as an error",
                json_kind(flag)
            ));
        }
        // What cannot be read must not count as good.
        *flag = read.unwrap_or(true).into();
    }
    result.retain(|field, value| field != "resultType" || value.is_string());
    Ok(())
}

/// Mends a prompt's messages.
pub(super) fn of_prompt(result: &mut Fields, faults: &mut Faults) {
    result.retain(|field, value| field != "description" || value.is_string());
    let messages = list_of(result.remove("messages").unwrap_or_default());
    let messages: Vec<Value> = messages
        .into_iter()
        .enumerate()
        .map(|(index, message)| {
            let place = format!("messages[{index}]");
            let (role, content) = match message {
                Value::Object(mut fields) => (fields.remove("role"), fields.remove("content")),
                other => (None, Some(other)),
            };
            let role = role.filter(|role| matches!(role.as_str(), Some("user" | "assistant")));
            let role = role.unwrap_or_else(|| "user".into());
            // A message has one part; several are one text.
            let content = part(content.unwrap_or_default(), &place, faults);
            json!({ "role": role, "content": content })
        })
        .collect();
    result.insert("messages".to_owned(), messages.into());
}

fn list_of(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        Value::Null => Vec::new(),
        value => vec![value],
    }
}

/// A part in a form that can be read: a text in its place says what could not.
fn part(mut value: Value, place: &str, faults: &mut Faults) -> Value {
    let is_deep = is_deep(&value);
    let reason = match &mut value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            return json!({ "type": "text", "text": text_of(&value) });
        }
        Value::Object(_) if is_deep => format!("it {}", too_deep()),
        Value::Object(fields) => match block(fields) {
            Ok(()) => return value,
            Err(reason) => reason,
        },
        other => format!("it is {}", json_kind(other)),
    };
    let of = value.get("type").and_then(Value::as_str);
    let of = of.map_or_else(String::new, |of| format!(" of the type `{of}`"));
    faults.push(format!("`{place}`{of} of a result cannot be read: {reason}"));
    json!({ "type": "text", "text": format!("[content{of} that cannot be read]") })
}

/// The fields that a part is made of.
const NEEDED: &[&str] = &["type", "text", "data", "mimeType", "resource", "uri", "name"];

fn block(fields: &mut Fields) -> Result<(), String> {
    let is_text = fields.get("type").and_then(Value::as_str) == Some("text");
    if let Some(text) = fields.get_mut("text").filter(|_| is_text)
        && matches!(text, Value::Number(_) | Value::Bool(_))
    {
        *text = text_of(text).into();
    }
    if let Some(resource) = fields.get_mut("resource").and_then(Value::as_object_mut) {
        resource.retain(|_, value| !value.is_null());
    }
    settle::<ContentBlock>(fields, NEEDED).map(|_dropped| ())
}
