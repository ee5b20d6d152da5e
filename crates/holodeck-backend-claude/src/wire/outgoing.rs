//! Writes the lines that the host sends to the CLI: messages, requests and answers.

use holodeck_backend_api::Image;
use serde_json::{Value, json};

/// Whether the CLI interprets `@file` and `/command` in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The model gets the text unchanged. CLIs before 2.1.248 ignore this and interpret the text.
    Verbatim,
    /// `@file` is replaced by the file's content, and `/command` is run.
    Interpreted,
}

/// A user message, which starts a turn.
pub(crate) fn user_message(text: &str, images: &[Image], uuid: Option<&str>, delivery: Delivery) -> String {
    let mut message = json!({
        "type": "user",
        "message": {"role": "user", "content": content(text, images)},
        "parent_tool_use_id": null,
        "session_id": "",
    });
    if let Some(fields) = message.as_object_mut() {
        if let Some(uuid) = uuid {
            fields.insert("uuid".to_owned(), uuid.into());
        }
        if delivery == Delivery::Verbatim {
            fields.insert("client_composed".to_owned(), true.into());
        }
    }
    line(&message)
}

fn content(text: &str, images: &[Image]) -> Value {
    if images.is_empty() {
        return text.into();
    }
    let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    let images = images.iter().map(|image| {
        json!({"type": "image", "source": {
            "type": "base64",
            "media_type": image.media_type,
            "data": &*image.base64,
        }})
    });
    text.into_iter().chain(images).collect()
}

/// A request to the CLI; `request` contains its `subtype`.
pub(crate) fn control_request(request_id: &str, request: &Value) -> String {
    line(&json!({"type": "control_request", "request_id": request_id, "request": request}))
}

/// The answer to a request of the CLI.
pub(crate) fn control_success(request_id: &str, response: &Value) -> String {
    line(&json!({
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": response},
    }))
}

/// The error answer to a request of the CLI.
pub(crate) fn control_error(request_id: &str, text: &str) -> String {
    line(&json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": text},
    }))
}

/// One line of JSON, which contains no line ends itself.
fn line(value: &Value) -> String {
    let mut line = value.to_string();
    line.push('\n');
    line
}
