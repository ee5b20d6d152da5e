//! The reasons for which a download fails.

use std::path::PathBuf;
use std::time::Duration;

use holodeck_http::{HttpError, HttpUrl};

/// Why a file could not be downloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The request failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The time limit was reached.
    #[error("{url} did not complete within {} s", after.as_secs_f64())]
    Timeout {
        /// The URL.
        url: HttpUrl,
        /// The time limit.
        after: Duration,
    },
    /// Too many redirects.
    #[error("{url} redirects too often")]
    Redirects {
        /// The first URL.
        url: HttpUrl,
    },
    /// A redirect without a location.
    #[error("{url} redirects without a location")]
    NoLocation {
        /// The redirecting URL.
        url: HttpUrl,
    },
    /// A redirect from `https` to `http`.
    #[error("refusing redirect from HTTPS to plain HTTP: {from} redirects to {to}")]
    Unprotected {
        /// The redirecting URL.
        from: HttpUrl,
        /// The location.
        to: HttpUrl,
    },
    /// The answer is not the content.
    #[error("{url} answered {status} instead of the file")]
    NoContent {
        /// The URL.
        url: HttpUrl,
        /// The HTTP status.
        status: u16,
    },
    /// The downloaded file can't be stored.
    #[error("can't write `{}`", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}
