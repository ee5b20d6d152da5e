//! The reasons for which a request fails. Must not contain header values, user names or query strings.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::excerpt;
use crate::url::{HttpUrl, InvalidUrl};

/// Why a request got no usable answer. Contains no header values, user names or query strings.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The text is not a usable `http(s)` URL.
    #[error(transparent)]
    InvalidUrl(#[from] InvalidUrl),
    /// A header value has characters that headers do not allow.
    #[error("the value for header `{name}` contains characters that are not allowed in a header")]
    InvalidHeader {
        /// Name of the header.
        name: String,
    },
    /// The connection failed.
    #[error("can't connect to {url}: {reason}")]
    Connect {
        /// The target.
        url: HttpUrl,
        /// The reason.
        reason: ConnectReason,
    },
    /// The time limit of the whole call was reached.
    #[error("no complete answer from {url} within {}", seconds(*after))]
    Timeout {
        /// The target.
        url: HttpUrl,
        /// The time limit.
        after: Duration,
    },
    /// The server answered with a status other than 2xx.
    #[error(
        "{url} answered {}{}{}",
        status_text(*status),
        excerpt::summary(body),
        long_wait(*retry_after)
    )]
    Status {
        /// The target.
        url: HttpUrl,
        /// The HTTP status code.
        status: u16,
        /// The first few kilobytes of the answer, redacted.
        body: String,
        /// The wait that the server requested.
        retry_after: Option<Duration>,
    },
    /// The answer exceeds the size limit.
    #[error("the answer from {url} is larger than {limit} bytes")]
    TooLarge {
        /// The target.
        url: HttpUrl,
        /// The size limit.
        limit: u64,
    },
    /// The answer is compressed, which was not asked for, and cannot be expanded.
    #[error("the answer from {url} {}", compressed(encoding, damage.as_deref()))]
    Encoded {
        /// The target.
        url: HttpUrl,
        /// The name of the encoding.
        encoding: String,
        /// Why it cannot be read, where the encoding is known.
        damage: Option<String>,
    },
    /// The connection broke before the answer was complete.
    #[error("the answer from {url} was interrupted: {reason}")]
    Body {
        /// The target.
        url: HttpUrl,
        /// The report of the transport.
        reason: String,
    },
    /// A 2xx answer of the wrong kind.
    #[error("{url} answered with {}", instead(*found, expected, body))]
    Unexpected {
        /// The target.
        url: HttpUrl,
        /// The expected kind, for example `JSON`.
        expected: &'static str,
        /// The actual kind.
        found: BodyKind,
        /// The first few kilobytes of the answer, redacted.
        body: String,
    },
    /// The request failed for another reason.
    #[error("the request to {url} failed: {reason}")]
    Request {
        /// The target.
        url: HttpUrl,
        /// The report of the transport.
        reason: String,
    },
}

impl HttpError {
    /// Whether a retry may succeed.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Connect { reason, .. } => reason.retryable(),
            Self::Status { status, .. } => {
                matches!(status, 408 | 409 | 425 | 429 | 500 | 502..=504 | 506..=599)
            }
            Self::Body { .. } => true,
            Self::InvalidUrl(_)
            | Self::InvalidHeader { .. }
            | Self::Timeout { .. }
            | Self::TooLarge { .. }
            | Self::Encoded { .. }
            | Self::Unexpected { .. }
            | Self::Request { .. } => false,
        }
    }

    /// The HTTP status, when the server gave one other than 2xx.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The wait that the server requested.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The error's body as text, when the server sent one.
    pub fn body(&self) -> Option<&str> {
        match self {
            Self::Status { body, .. } | Self::Unexpected { body, .. } => Some(body),
            _ => None,
        }
    }
}

/// The description of a compressed answer.
pub(crate) fn compressed(encoding: &str, damage: Option<&str>) -> String {
    let damage = damage.map_or_else(String::new, |damage| {
        format!(", and cannot be expanded: {damage}")
    });
    format!("is compressed with {encoding}, which was not asked for{damage}")
}

/// Why a connection failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectReason {
    /// Nothing listens on the port.
    #[error("connection refused")]
    Refused,
    /// The host name has no address.
    #[error("host name `{0}` can't be resolved")]
    Dns(String),
    /// The certificate was rejected.
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    /// The TLS handshake failed for another reason.
    #[error("TLS handshake failed: {0}")]
    Tls(String),
    /// No connection within the connect time-out.
    #[error("timed out")]
    TimedOut,
    /// The address is not public, and only public ones are allowed.
    #[error("{0} is not a public address")]
    NotPublic(String),
    /// No route to the host or network.
    #[error("host unreachable")]
    Unreachable,
    /// The proxy refused or failed.
    #[error("proxy: {0}")]
    Proxy(String),
    /// Any other reason, as the transport reported it.
    #[error("{0}")]
    Other(String),
}

impl ConnectReason {
    /// The next step, if the reason is sufficient to suggest it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Certificate(_) | Self::Tls(_) => {
                Some("to trust your own certificate, set `SSL_CERT_FILE` to its path")
            }
            Self::Proxy(_) => Some("check `HTTPS_PROXY`; `NO_PROXY` lists hosts to reach directly"),
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        !matches!(
            self,
            Self::Certificate(_) | Self::Tls(_) | Self::Proxy(_) | Self::NotPublic(_)
        )
    }
}

/// The kind of body that a server sent instead of the expected content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyKind {
    /// A web page, as sent by a proxy, a login page or a wrong path.
    Html,
    /// An empty body.
    Empty,
    /// JSON instead of an event stream.
    Json,
    /// Other text or bytes.
    Text,
}

impl fmt::Display for BodyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Html => "an HTML page",
            Self::Empty => "an empty body",
            Self::Json => "JSON",
            Self::Text => "text",
        })
    }
}

/// `text instead of JSON: <the gist>`; a web page is named once, with its title.
fn instead(found: BodyKind, expected: &str, body: &str) -> String {
    let gist = excerpt::summary(body);
    match gist.strip_prefix(": ") {
        Some(page) if found == BodyKind::Html && excerpt::is_html(body) => {
            format!("{page} instead of {expected}")
        }
        _ => format!("{found} instead of {expected}{gist}"),
    }
}

/// Why the options are not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The CA bundle can't be read.
    #[error("can't read the CA bundle `{}`", path.display())]
    CaBundle {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The CA bundle contains no usable certificate.
    #[error("no certificate in the CA bundle `{}`", path.display())]
    CaBundleEmpty {
        /// The file.
        path: PathBuf,
    },
    /// A proxy setting is not a usable URL; it is not shown because it may contain a password.
    #[error("the value of {setting} is not a valid proxy URL (http:// or https://)")]
    Proxy {
        /// Name of the setting.
        setting: &'static str,
    },
    /// The client could not be built.
    #[error("can't build the HTTP client: {reason}")]
    Client {
        /// The report of the HTTP library.
        reason: String,
    },
}

/// The wait that a server asks for as the end of an error's sentence, if it is longer than one waits.
pub fn long_wait(asked: Option<Duration>) -> String {
    let seconds = asked.map_or(0, |asked| asked.as_secs());
    let (count, unit) = match seconds {
        0..=60 => return String::new(),
        61..=7199 => (seconds.div_ceil(60), "minutes"),
        _ => (seconds.div_ceil(3600), "hours"),
    };
    format!("; it asks to wait {count} {unit}")
}

fn status_text(status: u16) -> String {
    let reason = reqwest::StatusCode::from_u16(status)
        .ok()
        .and_then(|code| code.canonical_reason());
    match reason {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
