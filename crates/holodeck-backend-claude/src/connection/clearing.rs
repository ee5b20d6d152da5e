//! Clears a process between conversations.

use std::time::Duration;

use tokio::time::timeout;

use super::{Connection, Incoming};
use crate::wire::{self, Delivery, Frame};

/// Why a process cannot be used for another conversation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClearError {
    #[error("the Claude Code CLI is still working on a finished turn")]
    Busy,
    /// Older versions answer that they do not have it, and the conversation stays.
    #[error("this version of the Claude Code CLI cannot clear a conversation")]
    Unavailable,
    #[error("the Claude Code CLI did not answer `/clear` within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("the Claude Code CLI exited during startup: {detail}")]
    Exited { detail: String },
}

impl Connection {
    /// Clears the conversation. Only the `/clear` command itself stays visible to the model. A process that does
    /// anything else meanwhile is not used for another conversation.
    pub(crate) async fn clear(&mut self) -> Result<(), ClearError> {
        self.is_cleared = false;
        while let Some(leftover) = self.try_next() {
            if leftover.belongs_to_turn() {
                return Err(ClearError::Busy);
            }
        }
        let before = self.session.clone();
        self.send(wire::user_message("/clear", &[], None, Delivery::Interpreted));
        let time_limit = self.clear;
        match timeout(time_limit, self.wait_until_cleared(before)).await {
            Ok(result) => result?,
            Err(_) => return Err(ClearError::TimedOut(time_limit)),
        }
        self.is_cleared = true;
        Ok(())
    }

    /// Reads the turn of `/clear`, which starts an empty conversation.
    async fn wait_until_cleared(&mut self, before: Option<String>) -> Result<(), ClearError> {
        let mut session = None;
        // It answers by itself in the conversation that was to be cleared.
        let (mut same, mut answered) = (false, false);
        loop {
            let Some(incoming) = self.next().await else {
                return Err(ClearError::Exited {
                    detail: self.exit_report().await,
                });
            };
            let Incoming::Frame(frame) = incoming else {
                return Err(ClearError::Busy);
            };
            match (*frame, &session) {
                (Frame::Init(init), None) if init.session_id.is_some() && init.session_id != before => {
                    session = init.session_id;
                }
                (Frame::Result(result), Some(_)) if !result.is_error && result.session_id == session => {
                    return Ok(());
                }
                (Frame::Init(init), None) if init.session_id == before && !same => same = true,
                (Frame::Assistant(frame), None) if same && frame.is_synthetic() => answered = true,
                (Frame::Result(result), None) if answered && result.session_id == before => {
                    return Err(ClearError::Unavailable);
                }
                // Older versions add a message without content.
                (Frame::Assistant(frame), Some(_)) if frame.is_synthetic() => {}
                (Frame::Init(_) | Frame::Result(_) | Frame::Assistant(_), _) => {
                    return Err(ClearError::Busy);
                }
                _ => {}
            }
        }
    }
}
