//! Why a server can't be connected.

use std::time::Duration;

/// Why a connection failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The configuration is incomplete.
    #[error("{0}")]
    Config(String),
    /// Its program can't be started.
    #[error("{0}")]
    Start(String),
    /// Its program exited.
    #[error("it ended ({exit}){}", stderr_suffix(stderr))]
    Ended {
        /// The exit status.
        exit: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It does not follow the protocol.
    #[error("{reason}{}", stderr_suffix(stderr))]
    Handshake {
        /// The reason.
        reason: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It did not answer in time.
    #[error("no answer within {} s{}", after.as_secs_f64(), stderr_suffix(stderr))]
    TimedOut {
        /// The time limit.
        after: Duration,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
}

fn stderr_suffix(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!("\nstderr: {stderr}")
    }
}
