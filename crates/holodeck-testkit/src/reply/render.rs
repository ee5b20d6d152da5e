use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::Stream;
use serde_json::json;

use super::{
    Content, Ending, Reply, RequestShape,
    message::{Form, Message},
};
use crate::Gate;

/// A reply as bytes.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) before: Duration,
    pub(crate) between: Duration,
    pub(crate) gate: Option<Gate>,
    pub(crate) body: Body,
    end: End,
}

#[derive(Debug)]
pub(crate) enum Body {
    Never,
    Whole(Bytes),
    Pieces(Vec<Bytes>),
    /// The same piece again and again, then the last one.
    Flood {
        piece: Bytes,
        times: usize,
        last: Bytes,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Cut,
    Hang,
}

const FLOOD_PIECE: usize = 64 * 1024;

impl Reply {
    pub(crate) fn render(&self, shape: RequestShape) -> Rendered {
        let (content_type, mut events) = match &self.content {
            Content::Message(message) if message.form == Form::Object => {
                ("application/json".to_owned(), vec![message.object().into()])
            }
            Content::Message(message) => ("text/event-stream".to_owned(), event_bytes(message, shape)),
            Content::Raw { content_type, body } => (content_type.clone(), vec![body.clone()]),
            Content::Flood { bytes } => return self.with("text/event-stream", flood(*bytes), End::Complete),
            Content::Silence => return self.with("text/plain", Body::Never, End::Hang),
        };
        let end = match self.ending {
            Ending::Complete => End::Complete,
            Ending::Stop(count) => {
                events.truncate(count);
                End::Complete
            }
            Ending::Cut(count) => {
                events.truncate(count);
                End::Cut
            }
            Ending::Hang(count) => {
                events.truncate(count);
                End::Hang
            }
        };
        if let Some(bytes) = self.split_every {
            let all = events.concat();
            events = all.chunks(bytes).map(Bytes::copy_from_slice).collect();
        }
        let at_once = end == End::Complete && self.between.is_zero() && self.split_every.is_none();
        let body = if at_once {
            Body::Whole(events.concat().into())
        } else {
            Body::Pieces(events)
        };
        self.with(&content_type, body, end)
    }

    fn with(&self, content_type: &str, body: Body, end: End) -> Rendered {
        Rendered {
            status: self.status,
            content_type: content_type.to_owned(),
            headers: self.headers.clone(),
            before: self.before,
            between: self.between,
            gate: self.gate.clone(),
            body,
            end,
        }
    }
}

impl Rendered {
    /// The body piece by piece, with its pauses and its end.
    pub(crate) fn pieces(self: Arc<Self>) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures::stream::unfold(0, move |at| {
            let rendered = Arc::clone(&self);
            async move {
                if at > 0 && !rendered.between.is_zero() {
                    tokio::time::sleep(rendered.between).await;
                }
                if rendered.paced() {
                    // The piece before must reach the socket by itself, and before the connection is cut.
                    tokio::task::yield_now().await;
                }
                if let Some(piece) = rendered.piece(at) {
                    return Some((Ok(piece), at + 1));
                }
                match rendered.end {
                    End::Complete => None,
                    End::Cut => Some((Err(io::Error::other("cut as scripted")), at)),
                    End::Hang => std::future::pending().await,
                }
            }
        })
    }

    fn piece(&self, at: usize) -> Option<Bytes> {
        match &self.body {
            Body::Pieces(pieces) => pieces.get(at).cloned(),
            Body::Flood { piece, times, last } => match at.cmp(times) {
                std::cmp::Ordering::Less => Some(piece.clone()),
                std::cmp::Ordering::Equal => Some(last.clone()),
                std::cmp::Ordering::Greater => None,
            },
            Body::Never | Body::Whole(_) => None,
        }
    }

    fn paced(&self) -> bool {
        matches!(self.body, Body::Pieces(_))
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
