//! Who may use the server.

use std::fmt;

use holodeck_chat::LOCAL_USER;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

/// Who may use the server.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "the two modes of `serve.auth`")]
pub enum Access {
    /// Every program of this machine, as the user `local`. Only for a server on the loopback interface.
    Open,
    /// Clients with one of these tokens.
    Tokens(Vec<Token>),
}

/// A token and the user it belongs to.
#[derive(Clone)]
pub struct Token {
    user: String,
    /// Comparing hashes takes a time that says nothing about the token.
    hash: [u8; 32],
}

impl Token {
    /// The token of `user`.
    pub fn new(user: impl Into<String>, token: &SecretString) -> Self {
        Self {
            user: user.into(),
            hash: Sha256::digest(token.expose_secret().as_bytes()).into(),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// Whether a text is a token.
    pub(crate) fn is_token(&self, text: &str) -> bool {
        matches!(self, Self::Tokens(_)) && self.user_of(Some(text)).is_some()
    }

    /// The user who sends this token, if any.
    pub(crate) fn user_of(&self, token: Option<&str>) -> Option<&str> {
        match self {
            Self::Open => Some(LOCAL_USER),
            Self::Tokens(tokens) => {
                let hash: [u8; 32] = Sha256::digest(token?.as_bytes()).into();
                let known = tokens.iter().find(|known| known.hash == hash);
                known.map(|known| known.user.as_str())
            }
        }
    }
}
