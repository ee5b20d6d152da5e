//! The text of an answer while it arrives, for clients of OpenAI's interfaces.

use holodeck_events::{StoredEvent, Subscription};
use holodeck_model::events::EventBody;
use tokio::time::sleep;

use crate::{
    answering::Answering,
    outlet::{Outlet, PART},
};

/// The pieces of text of one run, also of messages before the last one.
pub(crate) struct Pieces {
    events: Subscription,
    run_id: String,
    written: Written,
    /// A message that is sent in parts, and the bytes of it that are sent.
    rest: String,
    sent: usize,
}

/// The next thing to do for a client that reads an answer.
pub(crate) enum Next {
    /// Send this text.
    Text(String),
    /// The run is over.
    Over,
    /// The client is gone.
    Left,
}

/// The next event of the run.
enum Read {
    Text(String),
    End,
    /// It can't be read, or is deleted.
    Gone,
}

impl Pieces {
    /// Those of this answer; `None` if its events cannot be read.
    pub(crate) async fn of(answering: &Answering) -> Option<Self> {
        let run = answering.store.run(&answering.run_id).await.ok()?;
        let before = run.and_then(|run| run.first_index.checked_sub(1));
        Some(Self {
            events: answering.subscribe(before).await.ok()?,
            run_id: answering.run_id.clone(),
            written: Written::default(),
            rest: String::new(),
            sent: 0,
        })
    }

    /// The text of an answer that is over; `None` if it is no longer stored.
    pub(crate) async fn text_of(answering: &Answering) -> Option<String> {
        let mut pieces = Self::of(answering).await?;
        let mut text = String::new();
        loop {
            match pieces.read().await {
                Read::Text(piece) => text.push_str(&piece),
                Read::End => return Some(text),
                Read::Gone => return None,
            }
            pieces.events.release();
        }
    }

    /// The text of the next event of the run, which may be empty.
    async fn read(&mut self) -> Read {
        loop {
            let Ok(Some(event)) = self.events.next().await else {
                return Read::Gone;
            };
            if event.event().meta.run_id.as_ref() != Some(&self.run_id) {
                continue;
            }
            if event.event().body.is_terminal() {
                return Read::End;
            }
            return Read::Text(self.written.text(&event));
        }
    }

    /// The next part of a message that is read whole, at most as large as a frame may be.
    fn take_part(&mut self) -> Option<String> {
        let rest = self.rest.get(self.sent..).filter(|rest| !rest.is_empty())?;
        let end = rest.floor_char_boundary(PART);
        let part = rest.get(..end)?.to_owned();
        self.sent += end;
        Some(part)
    }

    /// Waits for the next one. Meanwhile the client gets heartbeats.
    pub(crate) async fn next(&mut self, outlet: &mut Outlet) -> Next {
        loop {
            if let Some(part) = self.take_part() {
                return Next::Text(part);
            }
            if !std::mem::take(&mut self.rest).is_empty() {
                outlet.release();
            }
            self.events.release();
            outlet.ready().await;
            let text = tokio::select! {
                biased;
                () = outlet.closed() => return Next::Left,
                text = self.read() => text,
                () = sleep(outlet.app().options().heartbeat) => {
                    if !outlet.heartbeat().await {
                        return Next::Left;
                    }
                    continue;
                }
            };
            match text {
                Read::End | Read::Gone => return Next::Over,
                Read::Text(text) if text.is_empty() => {}
                Read::Text(text) if text.len() > PART => {
                    if !outlet.reserve(text.len()).await {
                        return Next::Left;
                    }
                    (self.rest, self.sent) = (text, 0);
                }
                Read::Text(text) => return Next::Text(text),
            }
        }
    }
}

/// The memory of an answer at its end, as a multiple of its text: the stored message, its result, and what is written of it.
pub(crate) const RESULT: usize = 6;

/// The text that was sent so far.
#[derive(Default)]
struct Written {
    is_after_message: bool,
    /// Whether pieces of the open message were sent. Those of an older run may be gone.
    has_pieces: bool,
}

impl Written {
    /// The text that an event adds. An empty line separates messages.
    fn text(&mut self, event: &StoredEvent) -> String {
        if event.event().meta.parent_tool_use_id.is_some() {
            return String::new();
        }
        match &event.event().body {
            EventBody::MessageChunk(chunk) if !chunk.content.is_empty() => {
                self.has_pieces = true;
                self.after_gap(&chunk.content)
            }
            EventBody::Message(message) if !message.content.is_empty() => {
                let text = if std::mem::take(&mut self.has_pieces) {
                    String::new()
                } else {
                    self.after_gap(&message.content)
                };
                self.is_after_message = true;
                text
            }
            _ => String::new(),
        }
    }

    fn after_gap(&mut self, text: &str) -> String {
        let gap = if std::mem::take(&mut self.is_after_message) {
            "\n\n"
        } else {
            ""
        };
        format!("{gap}{text}")
    }
}
