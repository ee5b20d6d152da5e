//! Reads an answer of the endpoint, whole or in events, until its end.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, ModelDelta};
use holodeck_http::{Beginning, Response, SseEvent, SseStream};
use holodeck_model::mend_json;
use serde_json::Value;

use super::Driver;
use crate::{
    assemble::Assembler,
    failure,
    json::{halves, is_loose, numbers, tighten_json},
    wire::Chunk,
};

/// An answer that is being read.
pub(super) struct Reading {
    pub(super) source: Source,
    pub(super) assembler: Assembler,
    /// How it begins, for errors.
    pub(super) beginning: Beginning,
    /// The wait that the headers ask for, should the answer be an error.
    pub(super) retry_after: Option<Duration>,
    /// Data that is no part of an answer, such as a keep-alive.
    pub(super) noise: Option<String>,
    pub(super) body: Arc<Value>,
}

/// Where the rest of an answer comes from.
pub(super) enum Source {
    Whole(Box<Response>),
    Events(Pin<Box<SseStream>>),
    Ended,
}

impl Reading {
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
                let value = value.await.map_err(|error| driver.explain(&error, &self.body))?;
                let whole = driver.parse_whole(&text, &value, &self.beginning)?;
                self.assembler.push_whole(whole, deltas);
            }
            Source::Events(mut events) => match (events.next().await, events.foreign_line()) {
                (Some(Ok(_)) | None, Some(line)) => return Err(driver.foreign_line(line)),
                (Some(Ok(event)), None) => {
                    let more = self.push(driver, &mend_event(event), deltas)?;
                    if more {
                        self.source = Source::Events(events);
                        return Ok(true);
                    }
                }
                (None, None) => {}
                // The answer is complete; only data after it was lost.
                (Some(Err(_broken)), _) if self.assembler.is_finished() => {}
                (Some(Err(error)), _) => {
                    let (endpoint, beginning) = (&driver.endpoint, &self.beginning);
                    return Err(failure::of_stream(&error, endpoint, beginning, &self.body));
                }
            },
            Source::Ended => {}
        }
        Ok(false)
    }

    /// Adds an event of the stream; returns whether more may follow.
    fn push(
        &mut self,
        driver: &Driver,
        event: &SseEvent,
        deltas: &mut Vec<ModelDelta>,
    ) -> Result<bool, BackendError> {
        match driver.parse_event(event)? {
            Event::Chunk(chunk) => self.assembler.push(*chunk, deltas),
            Event::Nothing => {}
            Event::Noise => {
                self.assembler.push_noise();
                self.noise
                    .get_or_insert_with(|| driver.endpoint.excerpt(&event.data));
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

/// A whole answer as text that strict parsers accept, and its value.
fn mend_whole(bytes: &[u8]) -> Option<(String, Value)> {
    let read = |text: String| {
        let text = halves::keep_letters(&text).unwrap_or(text);
        let text = numbers::wrap(&text).unwrap_or(text);
        serde_json::from_str(&text).ok().map(|value| (text, value))
    };
    let as_sent = std::str::from_utf8(bytes).ok();
    as_sent
        .and_then(|text| read(text.to_owned()))
        .or_else(|| read(mend_json(bytes)?))
        .or_else(|| read(tighten_json(as_sent?)))
}

/// Repairs the event's data so that strict parsers accept it. What the next event may complete stays.
pub(super) fn mend_event(mut event: SseEvent) -> SseEvent {
    if let Some(data) = halves::keep(&event.data) {
        event.data = data;
    }
    if is_loose(&event.data) {
        event.data = tighten_json(&event.data);
    }
    if let Some(data) = numbers::wrap(&event.data) {
        event.data = data;
    }
    event
}

/// One event of a streamed answer.
pub(super) enum Event<'a> {
    Chunk(Box<Chunk<'a>>),
    Nothing,
    /// Data that cannot be a piece of an answer.
    Noise,
    Done,
}
