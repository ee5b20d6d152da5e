//! One request of an agent to a server.

/// A request to a server.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A call of a tool.
    Tool {
        /// Its name on the server.
        name: String,
        repeat: Repeat,
    },
    /// A prompt.
    Prompt {
        /// Its name on the server.
        name: String,
    },
}

/// Whether a call may be sent again when its effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Harmless,
    Unknown,
}
