//! How the bytes of a scripted reply are sent: whole, in pieces, delayed or interrupted.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::Stream;

use crate::Gate;

/// The properties of a reply besides its content.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) ending: Ending,
    pub(crate) split_every: Option<usize>,
    pub(crate) before: Duration,
    pub(crate) between: Duration,
    pub(crate) gate: Option<Gate>,
    /// Gates within the body: before the piece with this number.
    pub(crate) gates: Vec<(usize, Gate)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Complete,
    /// After this number of events the body ends as if it were complete.
    Stop(usize),
    /// After this number of events the connection breaks.
    Cut(usize),
    /// After this number of events the server stays silent.
    Hang(usize),
}

/// A reply as bytes.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) delivery: Delivery,
    pub(crate) content_type: String,
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

impl Delivery {
    /// At once and complete.
    pub(crate) fn with_status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            ending: Ending::Complete,
            split_every: None,
            before: Duration::ZERO,
            between: Duration::ZERO,
            gate: None,
            gates: Vec::new(),
        }
    }

    /// A body of these events, with this delivery.
    pub(crate) fn events(&self, content_type: &str, mut events: Vec<Bytes>) -> Rendered {
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
        let at_once = end == End::Complete
            && self.between.is_zero()
            && self.split_every.is_none()
            && self.gates.is_empty();
        let body = if at_once {
            Body::Whole(events.concat().into())
        } else {
            Body::Pieces(events)
        };
        self.rendered(content_type, body, end)
    }

    /// A body that always comes complete.
    pub(crate) fn complete(&self, content_type: &str, body: Body) -> Rendered {
        self.rendered(content_type, body, End::Complete)
    }

    /// Nothing, not even a status.
    pub(crate) fn never(&self) -> Rendered {
        self.rendered("text/plain", Body::Never, End::Hang)
    }

    fn rendered(&self, content_type: &str, body: Body, end: End) -> Rendered {
        Rendered {
            delivery: self.clone(),
            content_type: content_type.to_owned(),
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
                let delivery = &rendered.delivery;
                if at > 0 && !delivery.between.is_zero() {
                    tokio::time::sleep(delivery.between).await;
                }
                if rendered.paced() {
                    // The previous piece must reach the socket separately, and before the connection breaks.
                    tokio::task::yield_now().await;
                }
                for (_, gate) in delivery.gates.iter().filter(|(before, _)| *before == at) {
                    gate.opened().await;
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

/// `text` in at most `count` pieces of about equal length; none for an empty text.
pub(crate) fn pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let length = characters.len().div_ceil(count.max(1)).max(1);
    characters.chunks(length).map(String::from_iter).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::pieces;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(pieces("äbc", 2), ["äb", "c"]);
        assert_eq!(pieces("ab", 5), ["a", "b"]);
        assert_eq!(pieces("", 3), Vec::<String>::new());
    }
}
