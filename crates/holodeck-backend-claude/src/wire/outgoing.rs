use serde_json::{Value, json};

/// What a person says: text, or content blocks of the Messages API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UserContent {
    Text(String),
    Blocks(Vec<Value>),
}

/// Whether the CLI reads `@file` and `/command` in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The text reaches the model as it is. CLIs before 2.1.248 do not know this and interpret it all the same.
    Verbatim,
    /// `@file` is read in, `/command` is run.
    Interpreted,
}

/// A message of the person, which starts a turn.
pub(crate) fn user_message(content: UserContent, uuid: Option<&str>, delivery: Delivery) -> String {
    let content = match content {
        UserContent::Text(text) => Value::String(text),
        UserContent::Blocks(blocks) => Value::Array(blocks),
    };
    let mut message = json!({
        "type": "user",
        "message": {"role": "user", "content": content},
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

/// A request to the CLI; `request` holds its `subtype`.
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

/// The answer to a request of the CLI that could not be served.
pub(crate) fn control_error(request_id: &str, text: &str) -> String {
    line(&json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": text},
    }))
}

/// Takes a request of the host back.
pub(crate) fn control_cancel(request_id: &str) -> String {
    line(&json!({"type": "control_cancel_request", "request_id": request_id}))
}

/// JSON text holds no line end of its own.
fn line(value: &Value) -> String {
    let mut line = value.to_string();
    line.push('\n');
    line
}
