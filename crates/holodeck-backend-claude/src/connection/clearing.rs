//! One process for several conversations, one after the other.

use std::time::Duration;

use tokio::time::timeout;

use super::{Connection, Incoming};
use crate::wire::{self, Delivery, Frame};

/// Why a process can't be used for another conversation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCleared {
    #[error("the Claude Code CLI goes on with a turn that is over")]
    Talks,
    #[error("the Claude Code CLI did not answer `/clear` within {} s", .0.as_secs_f64())]
    Silent(Duration),
    #[error("the Claude Code CLI ended during its start: {detail}")]
    Ended { detail: String },
}

impl Connection {
    /// Makes the CLI forget what was said. What stays is that it was cleared: the model is told of the command.
    /// A process that does anything else in between is not to be trusted with another conversation.
    pub(crate) async fn clear(&mut self) -> Result<(), NotCleared> {
        self.cleared = false;
        while let Some(left) = self.left_over() {
            if left.is_of_a_turn() {
                return Err(NotCleared::Talks);
            }
        }
        let before = self.session.clone();
        self.send(wire::user_message("/clear", &[], None, Delivery::Interpreted));
        let patience = self.clear;
        match timeout(patience, self.hear_clearing(before)).await {
            Ok(cleared) => cleared?,
            Err(_) => return Err(NotCleared::Silent(patience)),
        }
        self.cleared = true;
        Ok(())
    }

    /// The turn of `/clear`: another conversation begins, and nothing is said in it.
    async fn hear_clearing(&mut self, before: Option<String>) -> Result<(), NotCleared> {
        let mut begun = None;
        loop {
            let Some(incoming) = self.next().await else {
                return Err(NotCleared::Ended {
                    detail: self.obituary().await,
                });
            };
            let Incoming::Frame(frame) = incoming else {
                return Err(NotCleared::Talks);
            };
            match (*frame, &begun) {
                (Frame::Init(init), None) if init.session_id.is_some() && init.session_id != before => {
                    begun = init.session_id;
                }
                (Frame::Result(result), Some(_)) if !result.is_error && result.session_id == begun => {
                    return Ok(());
                }
                // Older ones say that there is nothing to say.
                (Frame::Assistant(frame), Some(_)) if frame.is_synthetic() => {}
                (Frame::Init(_) | Frame::Result(_) | Frame::Assistant(_), _) => {
                    return Err(NotCleared::Talks);
                }
                _ => {}
            }
        }
    }
}

impl Incoming {
    /// Whether it belongs to a turn, and not to the time between two.
    fn is_of_a_turn(&self) -> bool {
        match self {
            Self::Frame(frame) => matches!(**frame, Frame::Init(_) | Frame::Result(_) | Frame::Assistant(_)),
            _ => true,
        }
    }
}
