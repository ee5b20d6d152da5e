use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::HttpUrl;
use crate::excerpt;

/// Why a request got no usable answer. Holds no header values, user names or query strings.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The text is no usable `http(s)` URL.
    #[error("invalid URL `{url}`: {reason}")]
    InvalidUrl {
        /// The text without what may be secret.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header value has characters that a header can't carry.
    #[error("the value for header `{name}` has characters that a header can't carry")]
    InvalidHeader {
        /// Name of the header.
        name: String,
    },
    /// No connection came about.
    #[error("can't connect to {url}: {reason}")]
    Connect {
        /// Where to.
        url: HttpUrl,
        /// Why not.
        reason: ConnectReason,
    },
    /// The time allowed for the whole call ran out.
    #[error("no complete answer from {url} within {}", seconds(*after))]
    Timeout {
        /// Who was asked.
        url: HttpUrl,
        /// The time that was allowed.
        after: Duration,
    },
    /// The server answered with a status other than 2xx.
    #[error("{url} answered {}{}", status_text(*status), excerpt::summary(body))]
    Status {
        /// Who answered.
        url: HttpUrl,
        /// The HTTP status code.
        status: u16,
        /// The first few kilobytes of the answer, secrets cut.
        body: String,
        /// How long the server asked to wait.
        retry_after: Option<Duration>,
    },
    /// The answer is larger than allowed.
    #[error("the answer from {url} is larger than {limit} bytes")]
    TooLarge {
        /// Who answered.
        url: HttpUrl,
        /// The largest answer allowed.
        limit: u64,
    },
    /// The connection broke before the answer was complete.
    #[error("the answer from {url} broke off: {reason}")]
    Body {
        /// Who answered.
        url: HttpUrl,
        /// What the transport reported.
        reason: String,
    },
    /// A 2xx answer that is not what was asked for.
    #[error("{url} answered with {found} instead of {expected}{}", excerpt::summary(body))]
    Unexpected {
        /// Who answered.
        url: HttpUrl,
        /// What was asked for, for example `JSON`.
        expected: &'static str,
        /// What came.
        found: Found,
        /// The first few kilobytes of the answer, secrets cut.
        body: String,
    },
    /// The request failed in a way that has no name here.
    #[error("the request to {url} failed: {reason}")]
    Request {
        /// Who was asked.
        url: HttpUrl,
        /// What the transport reported.
        reason: String,
    },
}

impl HttpError {
    /// Whether the same request may succeed when sent again.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Connect { reason, .. } => reason.retryable(),
            Self::Status { status, .. } => {
                matches!(status, 408 | 409 | 425 | 429 | 500 | 502..=504 | 506..=599)
            }
            Self::Body { .. } => true,
            Self::InvalidUrl { .. }
            | Self::InvalidHeader { .. }
            | Self::Timeout { .. }
            | Self::TooLarge { .. }
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

    /// How long the server asked to wait.
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

/// Why no connection came about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectReason {
    /// Nothing listens there.
    #[error("connection refused")]
    Refused,
    /// The host name has no address.
    #[error("host name `{0}` can't be resolved")]
    Dns(String),
    /// The certificate was not accepted.
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    /// The TLS handshake failed for another reason.
    #[error("TLS handshake failed: {0}")]
    Tls(String),
    /// No connection within the connect time-out.
    #[error("timed out")]
    TimedOut,
    /// The address is not one of the public internet, and only those are allowed.
    #[error("{0} is no public address")]
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
    /// What to do, where the reason alone tells.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Certificate(_) | Self::Tls(_) => {
                Some("a certificate of your own is trusted when `SSL_CERT_FILE` names it")
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

/// What a server sent instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// A web page, as a proxy, a login wall or a wrong path sends.
    Html,
    /// Nothing.
    Empty,
    /// JSON where a stream of events was asked for.
    Json,
    /// Some other text or bytes.
    Text,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Html => "an HTML page",
            Self::Empty => "an empty body",
            Self::Json => "JSON",
            Self::Text => "text",
        })
    }
}

/// Why no client could be built from the options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The CA bundle can't be read.
    #[error("can't read the CA bundle `{}`", path.display())]
    CaBundle {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The CA bundle holds no usable certificate.
    #[error("no certificate in the CA bundle `{}`", path.display())]
    CaBundleEmpty {
        /// The file.
        path: PathBuf,
    },
    /// The value of a proxy setting is no usable URL; it is not shown since it may hold a password.
    #[error("the value of {setting} is no usable proxy URL (http:// or https://)")]
    Proxy {
        /// Name of the setting.
        setting: &'static str,
    },
    /// The client could not be built.
    #[error("can't build the HTTP client: {reason}")]
    Client {
        /// What the HTTP library reported.
        reason: String,
    },
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
