//! The body of a request as it is sent: the flags of the transport, and the part for the model.

use holodeck_backend_api::RequestBody;
use serde::Serialize;
use serde_json::Value;

use crate::{dialect::Form, json::numbers};

#[derive(Serialize)]
struct WireBody<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    body: &'a Value,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// A request to `model` in a form. No form changes the definitions of tools.
pub(super) fn text(model: &str, form: &Form, body: &RequestBody) -> Result<String, String> {
    let wire = WireBody {
        model,
        stream: !form.is_whole(),
        stream_options: form
            .asks_for_usage()
            .then_some(StreamOptions { include_usage: true }),
        body: &form.apply(body.own()),
    };
    let mut text = serde_json::to_string(&wire).map_err(|error| error.to_string())?;
    if let Some(tools) = body.tools() {
        let tools = tools.json().map_err(ToString::to_string)?;
        // The object ends after them.
        text.pop();
        text.extend([r#","tools":"#, tools, "}"]);
    }
    Ok(numbers::unwrap(&text).into_owned())
}
