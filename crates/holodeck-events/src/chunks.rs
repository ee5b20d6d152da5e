//! Collects streamed pieces of text while others are stored, so that a fast model does not cost a commit per word.

use std::time::Duration;

use holodeck_model::events::{EventBody, EventClass, TextChunk};
use tokio::time::Instant;

use crate::Draft;

/// Bytes of text after which nothing more is collected.
const MAX_BYTES: usize = 4096;

/// Pieces of an answer that wait while others are stored. A piece that comes when nothing is stored waits for nothing.
pub(crate) struct Chunks {
    /// The least time between two writes.
    interval: Duration,
    /// When the last write began.
    written: Option<Instant>,
    waiting: Vec<Draft>,
    bytes: usize,
    has_other: bool,
}

impl Chunks {
    /// Pieces are stored at most once in `interval`.
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            written: None,
            waiting: Vec::new(),
            bytes: 0,
            has_other: false,
        }
    }

    /// When what waits may be stored; `None` if nothing waits.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.waiting.is_empty() {
            return None;
        }
        let now = Instant::now();
        let next = self.written.and_then(|at| at.checked_add(self.interval));
        Some(next.filter(|_| !self.is_full() && !self.has_other).unwrap_or(now))
    }

    /// Adds new events; neighbours of one block of text become one.
    pub(crate) fn add(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            self.has_other |= draft.class != EventClass::Journaled;
            self.bytes += chunk(&draft.event.body).map_or(0, |chunk| chunk.content.len());
            let rest = match self.waiting.last_mut() {
                Some(last) => join(last, draft),
                None => Some(draft),
            };
            self.waiting.extend(rest);
        }
    }

    /// Whether an event waits that is not a piece: the run continues when it is stored.
    pub(crate) fn has_other(&self) -> bool {
        self.has_other
    }

    /// Whether so much waits that nothing more is to be collected.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Takes what waits, to store it now.
    pub(crate) fn take(&mut self) -> Vec<Draft> {
        let next = Self {
            written: Some(Instant::now()),
            ..Self::new(self.interval)
        };
        std::mem::replace(self, next).waiting
    }
}

fn chunk(body: &EventBody) -> Option<&TextChunk> {
    match body {
        EventBody::ThinkingChunk(chunk) | EventBody::MessageChunk(chunk) => Some(chunk),
        _ => None,
    }
}

/// Appends the text of `next` to `last` if it is the next piece of the same block; returns `next` otherwise.
fn join(last: &mut Draft, next: Draft) -> Option<Draft> {
    let is_same_agent = last.event.meta.parent_tool_use_id == next.event.meta.parent_tool_use_id
        && last.event.meta.turn == next.event.meta.turn;
    match (&mut last.event.body, &next.event.body) {
        (EventBody::ThinkingChunk(earlier), EventBody::ThinkingChunk(later))
        | (EventBody::MessageChunk(earlier), EventBody::MessageChunk(later))
            if is_same_agent
                && earlier.block_index == later.block_index
                && earlier.message_id == later.message_id =>
        {
            earlier.content.push_str(&later.content);
            None
        }
        _ => Some(next),
    }
}
