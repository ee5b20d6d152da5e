//! Describes errors of a database without repeating a password.

/// Why there is no database to connect to. The text repeats no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(String);

impl TargetError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// An error with its causes.
pub fn describe_error(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let reason = match cause.downcast_ref::<std::io::Error>() {
            Some(error) => holodeck_model::io_reason(error),
            None => cause.to_string(),
        };
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        next = cause.source();
    }
    text
}

/// Whether the connection failed, not a statement.
pub fn is_io_error(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    error.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}
