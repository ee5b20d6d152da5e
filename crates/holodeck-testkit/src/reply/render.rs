//! Turns a scripted reply into the bytes of an HTTP response.

use bytes::Bytes;
use serde_json::json;

use super::{
    Content, Reply, RequestShape,
    message::{Form, Message},
};
use crate::delivery::{Body, Rendered};

const FLOOD_PIECE: usize = 64 * 1024;
const EVENTS: &str = "text/event-stream";

impl Reply {
    pub(crate) fn render(&self, shape: RequestShape) -> Rendered {
        let delivery = &self.delivery;
        match &self.content {
            Content::Message(message) if message.form == Form::Object => {
                delivery.events("application/json", vec![message.object(shape).into()])
            }
            Content::Message(message) => delivery.events(EVENTS, event_bytes(message, shape)),
            Content::Raw { content_type, body } => delivery.events(content_type, vec![body.clone()]),
            Content::Flood { bytes } => delivery.complete(EVENTS, flood(*bytes)),
            Content::Silence => delivery.never(),
        }
    }
}

fn event_bytes(message: &Message, shape: RequestShape) -> Vec<Bytes> {
    let events = message.events(shape).into_iter();
    events.map(|data| format!("data: {data}\n\n").into()).collect()
}

fn flood(bytes: usize) -> Body {
    let text = "flood ".repeat(FLOOD_PIECE / 6);
    let piece = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    Body::Flood {
        piece: format!("data: {piece}\n\n").into(),
        times: bytes.div_ceil(text.len()),
        last: format!("data: {last}\n\ndata: [DONE]\n\n").into(),
    }
}
