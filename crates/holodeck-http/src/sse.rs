//! Server-sent events, bounded.
//!
//! A decoder of its own: the existing crate buffers the rest of a stream after an invalid UTF-8 byte, and a limit in
//! front of it would have to find the ends of events, which is most of a decoder.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;

use crate::{Body, HttpError};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's name; empty if the server sent none.
    pub event: String,
    /// The `data` lines joined by newlines.
    pub data: String,
    /// The id for resuming the stream from here.
    pub id: Option<String>,
    /// How long to wait before resuming.
    pub retry: Option<Duration>,
}

/// An event exceeded the decoder's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge;

/// Decodes bytes, split anywhere, into events. Never buffers more than its limit.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The unfinished line.
    line: Vec<u8>,
    event: String,
    data: String,
    id: Option<String>,
    retry: Option<Duration>,
    has_data: bool,
    started: bool,
    /// The first line that is no field of a stream, if it may be a value.
    foreign_line: Option<String>,
    /// The last byte was a CR: an LF right after it belongs to the same line end.
    after_cr: bool,
}

impl SseDecoder {
    /// A decoder that refuses events larger than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: String::new(),
            data: String::new(),
            id: None,
            retry: None,
            has_data: false,
            started: false,
            foreign_line: None,
            after_cr: false,
        }
    }

    /// Consumes the next bytes and appends completed events to `events`.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        events: &mut impl Extend<SseEvent>,
    ) -> Result<(), EventTooLarge> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = bytes.split_at(1).1;
                continue;
            }
            let end = line_end(bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + part.len() > self.limit {
                return Err(EventTooLarge);
            }
            let Some((line_end, rest)) = rest.split_first() else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_cr = *line_end == b'\r';
            bytes = rest;
            if self.line.is_empty() {
                self.line(part, events);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.line(&line, events);
                line.clear();
                self.line = line;
            }
        }
        Ok(())
    }

    /// The event whose lines were complete when the stream ended without the final blank line. A truncated line is
    /// dropped: it looks like a shorter one.
    pub fn finish(&mut self) -> Option<SseEvent> {
        self.line.clear();
        self.dispatch()
    }

    fn line(&mut self, line: &[u8], events: &mut impl Extend<SseEvent>) {
        let mut line = line;
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            events.extend(self.dispatch());
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                match std::str::from_utf8(value) {
                    Ok(value) => self.data.push_str(value),
                    Err(_invalid) => self.data.push_str(&String::from_utf8_lossy(value)),
                }
            }
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => {
                let text = std::str::from_utf8(value).ok();
                let wait = text.and_then(|text| text.parse().ok()).map(Duration::from_millis);
                self.retry = wait.or(self.retry);
            }
            // A comment.
            b"" => {}
            // An unknown field, which readers of streams skip; one with a value may be what the server meant to say.
            _ => {
                if self.foreign_line.is_none() && line.contains(&b'{') {
                    self.foreign_line = Some(String::from_utf8_lossy(line).into_owned());
                }
            }
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        // Without data there is no event; its `id` applies to the next one.
        std::mem::take(&mut self.has_data).then(|| SseEvent {
            event,
            data,
            id: self.id.take(),
            retry: self.retry.take(),
        })
    }
}

/// Where the first line ends.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', b'\r', bytes)
}

/// Decodes a whole answer; the target for fuzzing.
pub fn decode_sse(bytes: &[u8]) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(usize::MAX);
    let mut events = Vec::new();
    if decoder.push(bytes, &mut events).is_ok() {
        events.extend(decoder.finish());
    }
    events
}

/// The events of an answer as they arrive.
#[derive(Debug)]
pub struct SseStream {
    body: Body,
    decoder: SseDecoder,
    ready: VecDeque<SseEvent>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Open,
    /// To be returned after the preceding events.
    Failed(HttpError),
    Ended,
}

impl SseStream {
    /// The first line so far that is no field of a stream and has a `{`: a server may have written an answer without its
    /// field.
    pub fn foreign_line(&self) -> Option<&str> {
        self.decoder.foreign_line.as_deref()
    }

    pub(crate) fn new(body: Body, max_event_bytes: usize) -> Self {
        Self {
            body,
            decoder: SseDecoder::new(max_event_bytes),
            ready: VecDeque::new(),
            source: Source::Open,
        }
    }
}

impl Stream for SseStream {
    type Item = Result<SseEvent, HttpError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            match std::mem::replace(&mut this.source, Source::Ended) {
                Source::Open => this.source = Source::Open,
                Source::Failed(error) => return Poll::Ready(Some(Err(error))),
                Source::Ended => return Poll::Ready(None),
            }
            match ready!(Pin::new(&mut this.body).poll_next(cx)) {
                Some(Ok(bytes)) => {
                    if this.decoder.push(&bytes, &mut this.ready).is_err() {
                        this.source = Source::Failed(this.body.too_large(this.decoder.limit as u64));
                    }
                }
                Some(Err(error)) => this.source = Source::Failed(error),
                None => {
                    this.source = Source::Ended;
                    this.ready.extend(this.decoder.finish());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn event(event: &str, data: &str) -> SseEvent {
        SseEvent {
            event: event.to_owned(),
            data: data.to_owned(),
            id: None,
            retry: None,
        }
    }

    fn split(bytes: &[u8], cuts: &[usize]) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(usize::MAX);
        let mut events = Vec::new();
        let mut start = 0;
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            decoder.push(&bytes[start..cut.max(start)], &mut events).unwrap();
            start = cut.max(start);
        }
        events.extend(decoder.finish());
        events
    }

    #[test]
    fn the_forms_servers_send() {
        for (text, expected) in [
            (
                "data: {\"a\":1}\n\ndata: [DONE]\n\n",
                vec![event("", "{\"a\":1}"), event("", "[DONE]")],
            ),
            (
                "data:x\r\n\r\ndata: y\r\rdata:  z\n\n",
                vec![event("", "x"), event("", "y"), event("", " z")],
            ),
            (
                "\u{feff}: hi\nevent: delta\nid: 7\nretry: 3\ndata: a\ndata\ndata: b\n\n",
                vec![SseEvent {
                    id: Some("7".to_owned()),
                    retry: Some(Duration::from_millis(3)),
                    ..event("delta", "a\n\nb")
                }],
            ),
            (
                "id: 8\nretry: soon\n\ndata: a\n\ndata: b\n\n",
                vec![
                    SseEvent {
                        id: Some("8".to_owned()),
                        ..event("", "a")
                    },
                    event("", "b"),
                ],
            ),
            (": ping\n\n\n\nevent: x\n\ndata: y\n\n", vec![event("", "y")]),
            ("data: whole\n", vec![event("", "whole")]),
            ("data: whole\ndata: cu", vec![event("", "whole")]),
            ("data: cut", vec![]),
            ("data\n\n", vec![event("", "")]),
            ("", vec![]),
        ] {
            assert_eq!(decode_sse(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_end_anywhere() {
        for end in [b'\n', b'\r'] {
            for length in 0..100 {
                let mut line = vec![b'a'; length];
                assert_eq!(line_end(&line), None);
                line.extend([end, b'a', b'\n']);
                assert_eq!(line_end(&line), Some(length));
                line.extend([b'a'; 64]);
                assert_eq!(line_end(&line), Some(length));
            }
        }
    }

    #[test]
    fn an_invalid_byte_spoils_its_line_only() {
        assert_eq!(
            decode_sse(b"data: \xff\n\ndata: ok\n\n"),
            [event("", "\u{fffd}"), event("", "ok")]
        );
    }

    #[test]
    fn every_single_split_gives_the_same_events() {
        let text = "\u{feff}data: é\r\n\r\nevent: x\rdata: 1\r\r: c\n\ndata: 2\ndata: 3\n\n".as_bytes();
        let whole = decode_sse(text);
        assert_eq!(whole.len(), 3);
        for cut in 0..=text.len() {
            assert_eq!(split(text, &[cut]), whole, "cut at {cut}");
        }
        assert_eq!(split(text, &(0..text.len()).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn unfinished_input_is_bounded() {
        let mut decoder = SseDecoder::new(16);
        let mut events = Vec::new();
        assert_eq!(decoder.push(b"data: 0123456789\n\n", &mut events), Ok(()));
        assert_eq!(decoder.push(b"data: 0123", &mut events), Ok(()));
        assert_eq!(decoder.push(b"4567890", &mut events), Err(EventTooLarge));
        let mut decoder = SseDecoder::new(16);
        let lines = b"data: 1\ndata: 2\ndata: 3\ndata: 4\ndata: 5\ndata: 6\ndata: 7\n";
        assert_eq!(decoder.push(lines, &mut events), Err(EventTooLarge));
        assert_eq!(events.len(), 1);
    }

    proptest! {
        #[test]
        fn splits_never_matter(
            lines in prop::collection::vec("(data: ?[a-zé]{0,5}|event: [a-z]{1,3}|: c|)", 0..12),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r"]), 12),
            mut cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            let text = lines.iter().zip(ends).flat_map(|(line, end)| [line.as_str(), end]).collect::<String>();
            cuts.retain(|cut| *cut <= text.len());
            cuts.sort_unstable();
            prop_assert_eq!(split(text.as_bytes(), &cuts), decode_sse(text.as_bytes()));
        }

        #[test]
        fn any_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            decode_sse(&bytes);
        }
    }
}
