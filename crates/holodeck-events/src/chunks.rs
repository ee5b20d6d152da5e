//! Collects streamed pieces of text for a moment, so that a fast model does not cost a commit per word.

use std::time::Duration;

use holodeck_model::events::{EventBody, EventClass, TextChunk};
use tokio::time::Instant;

use crate::Draft;

/// Bytes of text that are stored without waiting for more.
const MAX_BYTES: usize = 4096;

/// Pieces of an answer that wait to be stored together, so that a fast model does not cost a commit per word.
pub(crate) struct Chunks {
    interval: Duration,
    waiting: Vec<Draft>,
    bytes: usize,
    since: Option<Instant>,
    is_due: bool,
}

impl Chunks {
    /// Pieces wait for `interval`; zero: not at all.
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            waiting: Vec::new(),
            bytes: 0,
            since: None,
            is_due: false,
        }
    }

    /// When what waits has to be stored; `None` if nothing waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.since.and_then(|since| since.checked_add(self.interval))
    }

    /// Adds new events. Whatever is not a piece is stored at once, and with it what came before.
    pub(crate) fn add(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            self.is_due |= self.interval.is_zero() || draft.class != EventClass::Journaled;
            self.bytes += chunk(&draft.event.body).map_or(0, |chunk| chunk.content.len());
            let rest = match self.waiting.last_mut() {
                Some(last) if !self.interval.is_zero() => join(last, draft),
                _ => Some(draft),
            };
            self.waiting.extend(rest);
        }
        self.is_due |= self.bytes >= MAX_BYTES;
        if !self.waiting.is_empty() && !self.interval.is_zero() {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// The time is over.
    pub(crate) fn expire(&mut self) {
        self.is_due = true;
    }

    /// Takes the events that have to be stored now.
    pub(crate) fn take_due(&mut self) -> Vec<Draft> {
        if !self.is_due {
            return Vec::new();
        }
        std::mem::replace(self, Self::new(self.interval)).waiting
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
