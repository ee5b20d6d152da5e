//! How a kind of target is asked, and the pieces in which its answer arrives.

use futures::stream::BoxStream;
use holodeck_backend_api::{BackendError, BackendEvent, TurnRequest};

use crate::{conversation::State, parts::Parts, template::Question};

/// A part of an answer as it arrives.
pub(crate) enum Piece {
    /// A piece of its text.
    Text(String),
    /// Something that happens while it is awaited.
    Event(BackendEvent),
    /// It is complete. `parts` has its text only if no piece had.
    Done(Box<Parts>),
}

/// The answer to one question, which ends with [`Piece::Done`] or an error.
pub(crate) type Pieces<'a> = BoxStream<'a, Result<Piece, BackendError>>;

/// How one kind of target is asked.
pub(crate) trait Asker: Send + Sync {
    /// Asks; `state` is that of the conversation.
    fn ask<'a>(&'a self, state: &'a mut State, question: Question, request: &TurnRequest) -> Pieces<'a>;

    /// Whether each request holds the whole conversation.
    fn sends_history(&self) -> bool;

    /// Whether requests name the conversation, so that it can be continued later.
    fn names_session(&self) -> bool;

    /// The conversation has ended: what it used is free for others.
    fn release(&self, _state: &mut State) {}

    /// No more conversations follow.
    fn close(&self) {}

    /// The paths that matched in no answer.
    fn unmatched(&self) -> Vec<String> {
        Vec::new()
    }
}
