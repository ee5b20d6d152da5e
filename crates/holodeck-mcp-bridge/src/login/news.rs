//! The news of a login for the person who logs in.

/// The news during a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginNews {
    /// A page to open.
    Open {
        /// The page. It contains the challenge and the state of this login, and no secret.
        url: String,
        /// The authorization server.
        issuer: String,
    },
    /// An answer of another login came, or of none: it was ignored.
    ForeignAnswer,
    /// An answer that cannot be read came: it was ignored.
    MalformedAnswer(&'static str),
    /// A second answer came: it was ignored.
    SecondAnswer,
}

/// Receives the news of a login.
pub(crate) type Listening<'a> = &'a (dyn Fn(LoginNews) + Send + Sync);
