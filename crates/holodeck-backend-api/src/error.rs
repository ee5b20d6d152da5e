//! Errors of backends, with cause, place and next step in separate fields until they are shown.

use std::{
    error::Error,
    fmt::{self, Display},
    sync::Arc,
    time::Duration,
};

use holodeck_model::{Diagnostic, Location};

/// An error with its next step and cause; kept separate until it is shown.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The error, in lower case without a full stop; further lines give details.
    pub message: String,
    /// The place in a file where the problem is.
    pub place: Option<Location>,
    /// The next step, where one is known.
    pub hint: Option<String>,
    /// The underlying error, if any.
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Explanation {
    /// An explanation with only a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// Adds the next step.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the underlying error.
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Prefixes the message with `before` and a colon.
    pub fn within(mut self, before: impl Display) -> Self {
        self.message = format!("{before}: {}", self.message);
        self
    }

    /// Message and hint as one text, for places that do not show them separately.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self}\n\nhint: {hint}"),
            None => self.to_string(),
        }
    }

    /// Message and hint as one sentence, for warnings.
    pub fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self}: {hint}"),
            None => self.to_string(),
        }
    }
}

/// The message and the place.
impl Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.place
            .as_ref()
            .map_or(Ok(()), |place| write!(f, " ({place})"))
    }
}

impl Error for Explanation {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<String> for Explanation {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&Diagnostic> for Explanation {
    fn from(problem: &Diagnostic) -> Self {
        Self {
            message: problem.message.clone(),
            place: problem.primary.clone(),
            hint: problem.help.clone(),
            source: None,
        }
    }
}

impl From<&str> for Explanation {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// Errors box the explanation to stay small: most calls succeed.
impl From<String> for Box<Explanation> {
    fn from(message: String) -> Self {
        Self::new(message.into())
    }
}

impl From<&str> for Box<Explanation> {
    fn from(message: &str) -> Self {
        Self::new(message.into())
    }
}

/// Why a backend could not complete a turn. A turn that the agent itself failed is an `Ok` with an
/// [`Outcome`](crate::Outcome) instead.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend could not start: credentials, endpoint, program.
    #[error(transparent)]
    Init(Box<Explanation>),
    /// The agent's file configures something that is not available; one line for each problem.
    #[error(transparent)]
    Config(Box<Explanation>),
    /// A conversation was interrupted by an error.
    #[error(transparent)]
    Session(Box<Explanation>),
    /// The agent's process ended in the middle of a turn.
    #[error("subprocess terminated unexpectedly: {detail}")]
    Terminated {
        /// The exit status and the last lines on stderr.
        detail: String,
    },
    /// The turn took longer than allowed.
    #[error("timeout exceeded{}", after_attempt(cause.as_deref()))]
    Timeout {
        /// The time limit.
        after: Duration,
        /// The error of the last attempt, if the turn was waiting to retry.
        cause: Option<String>,
    },
    /// The endpoint or process violated the protocol: an incomplete stream, not JSON, a size limit.
    #[error(transparent)]
    Protocol(Box<Explanation>),
    /// The model's endpoint answered with an error, or could not be reached (`status` is `None`).
    #[error("{explanation}")]
    Provider {
        /// HTTP status.
        status: Option<u16>,
        /// The endpoint's own error code.
        code: Option<String>,
        /// The endpoint's message and the next step.
        explanation: Box<Explanation>,
        /// The request parameter that the endpoint rejected, if it named one.
        param: Option<String>,
        /// Whether a retry may succeed.
        retryable: bool,
        /// The wait that the endpoint requested before a retry.
        retry_after: Option<Duration>,
    },
    /// A tool could not be run at all.
    #[error("tool execution failed: {name}")]
    Tool {
        /// The tool.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The recording contains no answer to this request: names the closest recorded one and the differences.
    #[error(transparent)]
    ReplayMiss(Box<Explanation>),
    /// The host stopped the turn.
    #[error("cancelled")]
    Cancelled,
}

/// The beginning of the failure of a turn whose answer is not in the requested form.
pub const UNFIT_ANSWER: &str = "structured output does not match the schema: ";

const ENDED_EARLY: &str = "the stream ended early";
const NO_RESULT: &str = "the turn ended without a result";

/// Only the first line of the cause: the others are hints.
fn after_attempt(cause: Option<&str>) -> String {
    let line = cause.and_then(|cause| cause.lines().next());
    line.map_or_else(String::new, |line| format!("; the last attempt failed: {line}"))
}

impl BackendError {
    /// The backend could not start.
    pub fn init(explanation: impl Into<Explanation>) -> Self {
        Self::Init(Box::new(explanation.into()))
    }

    /// The agent's file configures something that is not available.
    pub fn config(explanation: impl Into<Explanation>) -> Self {
        Self::Config(Box::new(explanation.into()))
    }

    /// A conversation was interrupted by an error.
    pub fn session(explanation: impl Into<Explanation>) -> Self {
        Self::Session(Box::new(explanation.into()))
    }

    /// The endpoint or process violated the protocol.
    pub fn protocol(explanation: impl Into<Explanation>) -> Self {
        Self::Protocol(Box::new(explanation.into()))
    }

    /// The recording contains no answer to the request.
    pub fn replay_miss(explanation: impl Into<Explanation>) -> Self {
        Self::ReplayMiss(Box::new(explanation.into()))
    }

    /// Adds the next step, if this error can carry one.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Init(explanation)
        | Self::Config(explanation)
        | Self::Session(explanation)
        | Self::Protocol(explanation)
        | Self::ReplayMiss(explanation)
        | Self::Provider { explanation, .. } = &mut self
        {
            explanation.hint = Some(hint.into());
        }
        self
    }

    /// The error and the next step, as separate parts.
    pub fn explanation(&self) -> Explanation {
        match self {
            Self::Init(explanation)
            | Self::Config(explanation)
            | Self::Session(explanation)
            | Self::Protocol(explanation)
            | Self::ReplayMiss(explanation)
            | Self::Provider { explanation, .. } => (**explanation).clone(),
            other => Explanation::new(other.to_string()),
        }
    }

    /// The answer ended early.
    pub fn ended_early() -> Self {
        Self::protocol(ENDED_EARLY)
    }

    /// The answer ended early for this reason.
    pub fn ended_early_by(reason: impl Display) -> Self {
        Self::protocol(format!("{ENDED_EARLY}: {reason}"))
    }

    /// The stream of a turn ended without its last event.
    pub fn no_result() -> Self {
        Self::protocol(NO_RESULT)
    }

    /// Whether the error is one of the three above.
    pub fn is_truncated(&self) -> bool {
        matches!(self, Self::Protocol(explanation)
            if explanation.message.starts_with(ENDED_EARLY) || explanation.message == NO_RESULT)
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

    /// The connection failed: the endpoint is down or its name is wrong.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Provider { status: None, .. })
    }

    /// Whether a retry may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Provider { retryable: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn hint_and_cause_are_not_part_of_the_message() {
        let cause = std::io::Error::other("disk full");
        let error =
            BackendError::init(Explanation::new("cannot start").with_source(cause)).with_hint("free it");
        assert_eq!(error.to_string(), "cannot start");
        assert_eq!(error.source().unwrap().to_string(), "disk full");
        let explanation = error.explanation().within("model");
        assert_eq!(explanation.hint.as_deref(), Some("free it"));
        assert_eq!(explanation.text(), "model: cannot start\n\nhint: free it");
        // This error cannot carry a hint.
        assert_eq!(BackendError::Cancelled.with_hint("x").explanation().hint, None);
    }
}
