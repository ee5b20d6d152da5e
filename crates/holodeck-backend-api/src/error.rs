use std::{fmt::Display, time::Duration};

/// Why a backend could not end a turn. An agent that ended it badly is an `Ok` with an
/// [`Outcome`](crate::Outcome) instead.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend could not start: credentials, endpoint, program.
    #[error("{message}")]
    Init {
        /// What is wrong, lower case, no full stop.
        message: String,
    },
    /// The agent's file asks for something that cannot be had.
    #[error("{message}")]
    Config {
        /// What is wrong, a line each, lower case, no full stop.
        message: String,
    },
    /// A conversation broke off.
    #[error("{message}")]
    Session {
        /// What happened.
        message: String,
    },
    /// The agent's process ended in the middle of a turn.
    #[error("subprocess terminated unexpectedly: {detail}")]
    Terminated {
        /// How it ended, and the last lines it wrote to stderr.
        detail: String,
    },
    /// The turn took longer than allowed.
    #[error("timeout exceeded{}", after_attempt(cause.as_deref()))]
    Timeout {
        /// The limit that was hit.
        after: Duration,
        /// What the last attempt ended with, if the turn was waiting to try again.
        cause: Option<String>,
    },
    /// The other side broke the protocol: half a stream, not JSON, a size limit.
    #[error("{message}")]
    Protocol {
        /// What was seen.
        message: String,
    },
    /// The model's endpoint answered with an error, or could not be reached (`status` is `None`).
    #[error("{message}")]
    Provider {
        /// HTTP status.
        status: Option<u16>,
        /// The endpoint's own error code.
        code: Option<String>,
        /// What it said.
        message: String,
        /// The request parameter the endpoint refused, when it named one.
        param: Option<String>,
        /// Whether trying again may help.
        retryable: bool,
        /// When the endpoint asked to be tried again.
        retry_after: Option<Duration>,
    },
    /// A tool could not be run at all.
    #[error("tool execution failed: {name}")]
    Tool {
        /// The tool.
        name: String,
        /// Why, for people.
        reason: String,
    },
    /// The recording holds no answer to this request.
    #[error("{message}")]
    ReplayMiss {
        /// The nearest recorded request and what differs.
        message: String,
    },
    /// The host stopped the turn.
    #[error("cancelled")]
    Cancelled,
}

const ENDED_EARLY: &str = "the stream ended early";
const NO_RESULT: &str = "the turn ended without a result";

/// The first line of a cause: the others are about what to do.
fn after_attempt(cause: Option<&str>) -> String {
    let line = cause.and_then(|cause| cause.lines().next());
    line.map_or_else(String::new, |line| format!("; the last attempt failed: {line}"))
}

impl BackendError {
    /// An answer broke off.
    pub fn ended_early() -> Self {
        Self::Protocol {
            message: ENDED_EARLY.to_owned(),
        }
    }

    /// An answer broke off for this reason.
    pub fn ended_early_by(reason: impl Display) -> Self {
        Self::Protocol {
            message: format!("{ENDED_EARLY}: {reason}"),
        }
    }

    /// A turn's stream was over before its last event.
    pub fn no_result() -> Self {
        Self::Protocol {
            message: NO_RESULT.to_owned(),
        }
    }

    /// Whether it is one of the three above.
    pub fn is_truncated(&self) -> bool {
        matches!(self, Self::Protocol { message } if message.starts_with(ENDED_EARLY) || message == NO_RESULT)
    }

    /// A 401 or 403: no further request with these credentials can succeed, so a run stops at once.
    pub fn is_credentials(&self) -> bool {
        matches!(
            self,
            Self::Provider {
                status: Some(401 | 403),
                ..
            }
        )
    }

    /// No connection was made: the endpoint is down or its name is wrong.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Provider { status: None, .. })
    }

    /// Whether a second attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Provider { retryable: true, .. })
    }
}
