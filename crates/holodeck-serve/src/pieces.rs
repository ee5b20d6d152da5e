//! The text of an answer while it arrives, for clients of OpenAI's interfaces.

use bytes::Bytes;
use holodeck_events::{StoredEvent, Subscription};
use holodeck_model::events::EventBody;
use tokio::{sync::mpsc::Sender, time::sleep};

use crate::{
    App,
    answering::Answering,
    stream::{HEARTBEAT, send},
};

/// The pieces of text of one run, also of messages before the last one.
pub(crate) struct Pieces {
    events: Subscription,
    run_id: String,
    written: Written,
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

impl Pieces {
    /// Those of this answer; `None` if its events cannot be read.
    pub(crate) async fn of(answering: &Answering) -> Option<Self> {
        let events = answering.store.subscribe(&answering.session_id, None).await;
        Some(Self {
            events: events.ok()?,
            run_id: answering.run_id.clone(),
            written: Written::default(),
        })
    }

    /// Waits for the next one. Meanwhile the client gets heartbeats.
    pub(crate) async fn next(&mut self, app: &App, sender: &Sender<Bytes>) -> Next {
        loop {
            let event = tokio::select! {
                biased;
                () = sender.closed() => return Next::Left,
                event = self.events.next() => event,
                () = sleep(app.options().heartbeat) => {
                    if !send(app, sender, HEARTBEAT).await {
                        return Next::Left;
                    }
                    continue;
                }
            };
            let Ok(Some(event)) = event else {
                return Next::Over;
            };
            if event.event().meta.run_id.as_ref() != Some(&self.run_id) {
                continue;
            }
            if event.event().body.is_terminal() {
                return Next::Over;
            }
            let text = self.written.text(&event);
            if !text.is_empty() {
                return Next::Text(text);
            }
        }
    }
}

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
