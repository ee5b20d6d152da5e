//! Reads an answer of the endpoint, whole or in events, until its end.

use std::{pin::Pin, sync::atomic::Ordering, time::Duration};

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, ModelDelta, RequestBody};
use holodeck_http::{Beginning, HttpError, Response, SseEvent, SseStream};
use holodeck_model::{mend_json, tighten_json};
use serde_json::Value;

use super::Driver;
use crate::{
    assemble::Assembler,
    failure,
    json::{halves, is_loose, numbers},
    wire::Chunk,
};

/// An answer that is being read.
pub(super) struct Reading {
    source: Source,
    assembler: Assembler,
    /// How it begins, for errors.
    beginning: Beginning,
    /// The wait that the headers ask for, should the answer be an error.
    retry_after: Option<Duration>,
    /// Data that is no part of an answer, such as a keep-alive.
    noise: Option<String>,
    body: RequestBody,
    /// Why its connection broke.
    broken: Option<HttpError>,
}

/// Where the rest of an answer comes from.
pub(super) enum Source {
    Whole(Box<Response>),
    Events(Pin<Box<SseStream>>),
    Ended,
}

impl Reading {
    pub(super) fn new(
        source: Source,
        assembler: Assembler,
        beginning: Beginning,
        retry_after: Option<Duration>,
        body: RequestBody,
    ) -> Self {
        Self {
            source,
            assembler,
            beginning,
            retry_after,
            noise: None,
            body,
            broken: None,
        }
    }

    /// Why the connection of the answer broke, if that is why it failed.
    pub(super) fn broken(self) -> Option<HttpError> {
        self.broken
    }

    /// The error of the transport in words.
    fn lost(&mut self, error: HttpError, driver: &Driver) -> BackendError {
        let (endpoint, beginning) = (&driver.endpoint, &self.beginning);
        let explained = failure::of_stream(&error, endpoint, beginning, &self.body);
        self.broken = Some(error).filter(|error| matches!(error, HttpError::Body { .. }));
        explained
    }

    /// Reads the next piece and appends its deltas; returns whether more may follow.
    pub(super) async fn next(
        &mut self,
        driver: &Driver,
        deltas: &mut Vec<ModelDelta>,
    ) -> Result<bool, BackendError> {
        let piece = self.read_piece(driver, deltas).await;
        let more = piece.map_err(|error| failure::with_wait(error, self.retry_after, &driver.endpoint));
        let ended = more.and_then(|more| {
            if !more {
                self.finish(driver, deltas)?;
            }
            Ok(more)
        });
        ended.map_err(|error| failure::masked(error, &driver.endpoint))
    }

    /// As [`Self::next`], without the end.
    async fn read_piece(
        &mut self,
        driver: &Driver,
        deltas: &mut Vec<ModelDelta>,
    ) -> Result<bool, BackendError> {
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Whole(response) => {
                let mut text = String::new();
                let value = response.json_by(|bytes| {
                    let (mended, value) = mend_whole(bytes)?;
                    text = mended;
                    Some(value)
                });
                let value = match value.await {
                    Ok(value) => value,
                    Err(error) => return Err(self.lost(error, driver)),
                };
                let whole = driver.parse_whole(&text, &value, &self.beginning)?;
                self.assembler.push_whole(whole, deltas);
            }
            Source::Events(mut events) => match (events.next().await, events.foreign_line()) {
                (Some(Ok(_)) | None, Some(line)) => return Err(driver.foreign_line(line)),
                (Some(Ok(event)), None) => {
                    let more = self.push(driver, &Piece::of(event), deltas)?;
                    if more {
                        self.source = Source::Events(events);
                        return Ok(true);
                    }
                }
                (None, None) => {}
                // The answer is complete; only data after it was lost.
                (Some(Err(_broken)), _) if self.assembler.is_finished() => {}
                (Some(Err(error)), _) => return Err(self.lost(error, driver)),
            },
            Source::Ended => {}
        }
        Ok(false)
    }

    /// Adds an event of the stream; returns whether more may follow.
    fn push(
        &mut self,
        driver: &Driver,
        event: &Piece,
        deltas: &mut Vec<ModelDelta>,
    ) -> Result<bool, BackendError> {
        match driver.parse_event(event)? {
            Event::Chunk(chunk) => self.assembler.push(*chunk, deltas),
            Event::Nothing => {}
            Event::Noise => {
                self.assembler.push_noise();
                self.noise
                    .get_or_insert_with(|| driver.endpoint.excerpt(event.sent()));
            }
            Event::Done => {
                self.assembler.mark_done();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&mut self, driver: &Driver, deltas: &mut Vec<ModelDelta>) -> Result<(), BackendError> {
        if self.assembler.has_lone_close() {
            driver.ends_reasoning_only.store(true, Ordering::Relaxed);
        }
        let rest = std::mem::take(&mut self.assembler).finish().map_err(|error| {
            if !error.is_truncated() {
                return failure::with_beginning(error, &driver.endpoint, &self.beginning);
            }
            match &self.noise {
                Some(noise) => driver.invalid_chunk(noise),
                None => failure::ended_early(format_args!("{} {}", driver.endpoint, self.beginning)),
            }
        })?;
        if let Some(noise) = &self.noise {
            deltas.push(ModelDelta::Notice(format!(
                "the endpoint sent data that is no part of an answer: `{noise}`"
            )));
        }
        deltas.extend(rest);
        Ok(())
    }
}

/// A whole answer as text that strict parsers accept, and its value as it may be shown.
fn mend_whole(bytes: &[u8]) -> Option<(String, Value)> {
    let read = |text: String| {
        let text = halves::keep_letters(&text).unwrap_or(text);
        let text = numbers::wrap(&text).unwrap_or(text);
        let mut value = serde_json::from_str(&text).ok()?;
        halves::join_in(&mut value);
        numbers::spell(&mut value);
        Some((text, value))
    };
    let as_sent = std::str::from_utf8(bytes).ok();
    as_sent
        .and_then(|text| read(text.to_owned()))
        .or_else(|| read(mend_json(bytes)?))
        .or_else(|| read(tighten_json(as_sent?)))
}

/// The data of an event, and the form of it that strict parsers accept.
///
/// Errors and notices show the data as the server sent it: the other form has marks that are of this crate alone.
pub(super) struct Piece {
    /// The half of a letter that the next event may complete stays in it.
    pub(super) data: String,
    pub(super) name: String,
    /// As it was sent, if `data` has another form.
    sent: Option<String>,
}

impl Piece {
    pub(super) fn of(event: SseEvent) -> Self {
        let SseEvent {
            event: name,
            data: sent,
            ..
        } = event;
        let kept = halves::keep(&sent);
        let data = kept.as_deref().unwrap_or(&sent);
        let tight = is_loose(data).then(|| tighten_json(data));
        let data = tight.as_deref().unwrap_or(data);
        let whole = numbers::wrap(data);
        match whole.or(tight).or(kept) {
            Some(data) => Self {
                data,
                name,
                sent: Some(sent),
            },
            None => Self {
                data: sent,
                name,
                sent: None,
            },
        }
    }

    /// The data as it was sent.
    pub(super) fn sent(&self) -> &str {
        self.sent.as_deref().unwrap_or(&self.data).trim()
    }
}

/// One event of a streamed answer.
pub(super) enum Event<'a> {
    Chunk(Box<Chunk<'a>>),
    Nothing,
    /// Data that cannot be a piece of an answer.
    Noise,
    Done,
}
