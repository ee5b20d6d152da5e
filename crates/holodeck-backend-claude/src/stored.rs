//! A conversation in the files of the CLI: where it stands, and the folder of its files.

use std::sync::Arc;

use holodeck_backend_api::SessionHandle;

use crate::home::Home;

/// The CLI's ids of a conversation and its last message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    pub(crate) session: String,
    pub(crate) message: Option<String>,
}

/// A conversation that a new process can continue: its position and the folder of its files.
pub(crate) struct StoredConversation {
    pub(crate) position: Position,
    pub(crate) home: Arc<Home>,
}

impl StoredConversation {
    /// Identifies the conversation and its last message.
    pub(crate) fn handle(&self) -> Option<SessionHandle> {
        Some(SessionHandle {
            provider: PROVIDER.to_owned(),
            id: self.position.session.clone(),
            head: self.position.message.clone()?,
        })
    }
}

/// The provider in this backend's session handles.
const PROVIDER: &str = "claude-code";
