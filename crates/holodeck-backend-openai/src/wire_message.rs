//! Builds messages and tool definitions in the format of the wire.

use holodeck_backend_api::{HistoryItem, Image, ToolCall, ToolResult, ToolSpec};
use serde_json::{Value, json};

use crate::dialect::echo;

pub(crate) fn system(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// As [`user`], with images after the text.
pub(crate) fn user_with(text: &str, images: &[Image]) -> Value {
    if images.is_empty() {
        return user(text);
    }
    let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    let images = images.iter().map(|image| {
        let url = format!("data:{};base64,{}", image.media_type, image.base64);
        json!({"type": "image_url", "image_url": {"url": url}})
    });
    let content: Vec<Value> = text.into_iter().chain(images).collect();
    json!({"role": "user", "content": content})
}

/// A message of `model`, as this model gets it again.
pub(crate) fn assistant(text: &str, calls: &[ToolCall], model: &str) -> Value {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text});
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let sent: Vec<Value> = calls.iter().map(call).collect();
    let mut message = json!({"role": "assistant", "content": content, "tool_calls": sent});
    echo::restore(&mut message, calls, model);
    message
}

pub(crate) fn tool_result(result: &ToolResult) -> Value {
    json!({"role": "tool", "tool_call_id": result.call_id, "content": result.result})
}

/// Chat Completions does not allow images in tool results, so a separate message contains them.
pub(crate) fn tool_images(name: &str, images: &[Image]) -> Value {
    let count = images.len();
    let what = if count == 1 {
        "picture".to_owned()
    } else {
        format!("{count} pictures")
    };
    user_with(&format!("The {what} that `{name}` answered with:"), images)
}

/// A conversation whose calls all have their results.
pub(crate) fn history(items: &[HistoryItem], model: &str) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut items = items.iter().peekable();
    while let Some(item) = items.next() {
        // An assistant message is its text and the calls that follow.
        let mut calls = Vec::new();
        let text = match item {
            HistoryItem::User { text } => {
                messages.push(user(text));
                continue;
            }
            HistoryItem::Result(result) => {
                messages.push(tool_result(result));
                continue;
            }
            HistoryItem::Call(call) => {
                calls.push(call.clone());
                ""
            }
            item => item.text().unwrap_or_default(),
        };
        while let Some(HistoryItem::Call(call)) = items.peek() {
            calls.push(call.clone());
            items.next();
        }
        messages.push(assistant(text, &calls, model));
    }
    messages
}

/// The places where the turns of a conversation begin. Pictures of tools are in messages of the user as well; those follow
/// a tool's result.
pub(crate) fn begins_of_turns(conversation: &[Value]) -> Vec<usize> {
    let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
    let mut before = None;
    let mut begins = Vec::new();
    for (at, message) in conversation.iter().enumerate() {
        let role = role(message);
        if role.as_deref() == Some("user") && before.as_deref() != Some("tool") {
            begins.push(at);
        }
        before = role;
    }
    begins
}

pub(crate) fn tool(spec: &ToolSpec) -> Value {
    json!({"type": "function", "function": {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }})
}

fn call(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Value::Object(_) => call.arguments.to_string(),
        // Servers parse this and refuse a conversation with arguments that are not an object.
        Value::String(text) => json!({"invalid_arguments": text}).to_string(),
        other => json!({"invalid_arguments": other}).to_string(),
    };
    json!({"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}
