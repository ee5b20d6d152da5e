//! Why a login failed or is missing. No text contains a token, a code or a secret.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holodeck_http::HttpUrl;
use holodeck_model::printable;

/// The longest text of a foreign server in an error.
const LONGEST: usize = 400;

/// Why a login failed or is missing.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// Its program runs on this machine.
    #[error("MCP server `{0}` has the transport `stdio`; only servers with a `url` have logins")]
    NotRemote(String),
    /// The YAML contains a token of its own.
    #[error(
        "`headers` of MCP server `{0}` contains `Authorization`, which would be sent in place of a login"
    )]
    OwnHeader(String),
    /// The address is not usable.
    #[error("{0}")]
    Address(String),
    /// A token would be readable on its way.
    #[error(
        "{0} is not encrypted, so no token is sent there; only `https`, or `http` on this machine, has logins"
    )]
    Insecure(HttpUrl),
    /// Discovery failed.
    #[error("the authorization server of {server} can't be found: {reason}")]
    Discovery {
        /// The MCP server.
        server: HttpUrl,
        /// Why.
        reason: String,
    },
    /// The authorization server lacks something that a login needs.
    #[error("{issuer} can't be used: {reason}")]
    Unusable {
        /// The authorization server.
        issuer: String,
        /// Why.
        reason: String,
    },
    /// The authorization server wants an application that it knows.
    #[error("{0} registers no applications by itself")]
    NoRegistration(String),
    /// The port of the redirect can't be used.
    #[error("can't listen on 127.0.0.1{}: {reason}", port.map(|port| format!(":{port}")).unwrap_or_default())]
    Listen {
        /// The port of the YAML.
        port: Option<u16>,
        /// Why.
        reason: String,
    },
    /// The authorization server, or the person, refused.
    #[error("{issuer} refused the login: {reason}")]
    Refused {
        /// The authorization server.
        issuer: String,
        /// Its words.
        reason: String,
    },
    /// The answer is that of another authorization server.
    #[error(
        "the answer came from the authorization server {received}, but {expected} was asked; nothing was sent to either"
    )]
    OtherIssuer {
        /// The authorization server that was asked.
        expected: String,
        /// The one that answered.
        received: String,
    },
    /// No answer came.
    #[error("no answer from the browser within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// No token came for the code.
    #[error("{issuer} gave no token: {reason}")]
    NoToken {
        /// The authorization server.
        issuer: String,
        /// Why.
        reason: String,
    },
    /// The tokens can't be kept or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server needs a login, and there is none or it is no longer valid.
    #[error("{reason}; type `{command}`")]
    Needed {
        /// Why.
        reason: String,
        /// The command to type.
        command: String,
    },
}

/// Why logins can't be read or written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the login in `{}` can't be used: {reason}", path.display())]
pub struct StoreError {
    path: PathBuf,
    reason: String,
}

impl StoreError {
    pub(crate) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// A foreign text on one line, without control characters and of bounded length.
pub(crate) fn foreign(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = printable(&words.join(" ")).into_owned();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
