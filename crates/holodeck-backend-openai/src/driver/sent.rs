//! The body of a request as it is sent: the flags of the transport, and the part for the model.

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

/// A request to `model` in a form.
pub(super) fn text(model: &str, form: &Form, body: &Value) -> serde_json::Result<String> {
    let wire = WireBody {
        model,
        stream: !form.is_whole(),
        stream_options: form
            .asks_for_usage()
            .then_some(StreamOptions { include_usage: true }),
        body: &form.apply(body),
    };
    let text = serde_json::to_string(&wire)?;
    Ok(numbers::unwrap(&text).into_owned())
}
