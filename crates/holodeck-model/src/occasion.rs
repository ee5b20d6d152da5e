//! The occasion on which an agent answers.

/// The occasion on which an agent runs. Backends, policies and telemetry all receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Test cases. A person is never asked.
    Test,
    /// One question.
    Run,
    /// A server.
    Serve,
    /// A conversation.
    Chat,
}
