//! The message of an answer, which servers send in several choices and under several names. One answer was asked for: where
//! two are sent, none is chosen.

use holodeck_backend_api::BackendError;

use crate::{
    failure,
    wire::{Choice, Content, Message},
};

/// The choices and names that the parts of an answer had so far.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// The choice with the text.
    text: Option<u64>,
    /// The choice with the calls.
    calls: Option<u64>,
    /// Pieces arrived as `delta`.
    has_deltas: bool,
    /// The reason why there is more than one answer.
    contradiction: Option<&'static str>,
}

impl Choices {
    /// The message of a choice, or a piece of it.
    pub(super) fn message_of<'a>(&mut self, choice: &mut Choice<'a>) -> Option<Box<Message<'a>>> {
        let delta = choice.delta.take();
        let is_piece = delta.as_deref().is_some_and(Message::says_something);
        let whole = choice
            .message
            .take()
            .filter(|message| !is_piece || message.says_something());
        let message = match (delta, whole) {
            (Some(delta), Some(whole)) if is_piece => {
                if !delta.says_the_same(&whole) {
                    self.contradict("`delta` and `message` of a choice differ");
                }
                Some(delta)
            }
            (delta, Some(whole)) => {
                if self.has_deltas && whole.says_something() {
                    self.contradict("a whole `message` follows its pieces");
                }
                let is_empty = !whole.says_something();
                if is_empty {
                    delta.or(Some(whole))
                } else {
                    Some(whole)
                }
            }
            (delta, None) => delta,
        };
        self.has_deltas |= is_piece;
        let message = self.with_text(message, choice);
        if let Some(message) = &message {
            self.note_index(message, choice.index.unwrap_or(0));
        }
        message
    }

    /// Adds the text of the older API, which stands beside the message.
    fn with_text<'a>(
        &mut self,
        message: Option<Box<Message<'a>>>,
        choice: &mut Choice<'a>,
    ) -> Option<Box<Message<'a>>> {
        let Some(text) = choice.text.take().filter(|text| !text.is_empty()) else {
            return message;
        };
        let mut message = message.unwrap_or_default();
        if message.content.text.is_empty() {
            message.content = Content {
                text,
                ..message.content
            };
        } else if message.content.text != text {
            self.contradict("`text` and the content of a choice differ");
        }
        Some(message)
    }

    /// Notes which choice has which part: text and calls may be in two choices, but neither of them.
    fn note_index(&mut self, message: &Message<'_>, index: u64) {
        let has_text = !message.content.text.is_empty();
        let has_calls = !message.tool_calls.is_empty() || message.function_call.is_some();
        for (place, is_there) in [(&mut self.text, has_text), (&mut self.calls, has_calls)] {
            if is_there && *place.get_or_insert(index) != index {
                self.contradiction.get_or_insert("there are several `choices`");
            }
        }
    }

    fn contradict(&mut self, reason: &'static str) {
        self.contradiction.get_or_insert(reason);
    }

    /// Returns an error if there is more than one answer.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        self.contradiction.map_or(Ok(()), |reason| {
            Err(failure::of_answer(
                format!("the endpoint sent more than one answer, and one was asked for: {reason}"),
                "does a proxy between here and the model ask for several, or repeat the answer?",
            ))
        })
    }
}
