//! JSON-RPC answers.

use holodeck_backend_api::ToolOutput;
use serde_json::{Value, json};

/// The codes of JSON-RPC that are used here.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    InvalidRequest = -32_600,
    UnknownMethod = -32_601,
    InvalidParams = -32_602,
}

pub(crate) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn error(id: &Value, fault: Fault, message: impl Into<String>) -> Value {
    let message: String = message.into();
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": fault as i32, "message": message } })
}

/// A notification needs no answer, but the control channel requires one.
pub(crate) fn to_notification() -> Value {
    json!({ "jsonrpc": "2.0", "result": {} })
}

/// The result of a tool call. `isError` is only written for errors, as by the CLI's own servers.
pub(crate) fn tool_result(id: &Value, output: &ToolOutput) -> Value {
    let text = json!({ "type": "text", "text": output.text });
    let images = output
        .images
        .iter()
        .map(|image| json!({ "type": "image", "mimeType": image.media_type, "data": &*image.base64 }));
    // A result may contain only images, but must not be empty.
    let text = (!output.text.is_empty() || output.images.is_empty()).then_some(text);
    let content: Value = text.into_iter().chain(images).collect();
    if output.is_error {
        result(id, &json!({ "content": content, "isError": true }))
    } else {
        result(id, &json!({ "content": content }))
    }
}
