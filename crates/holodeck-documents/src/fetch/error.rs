use std::path::PathBuf;
use std::time::Duration;

use holodeck_http::{HttpError, HttpUrl};

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The request failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The time was over.
    #[error("nothing complete from {url} within {} s", after.as_secs_f64())]
    Timeout {
        /// Where from.
        url: HttpUrl,
        /// The time that was allowed.
        after: Duration,
    },
    /// One redirect after the other.
    #[error("{url} is redirected too often")]
    Redirects {
        /// The first URL.
        url: HttpUrl,
    },
    /// A redirect that does not say where to.
    #[error("{url} redirects without saying where to")]
    NoLocation {
        /// Who answered.
        url: HttpUrl,
    },
    /// A redirect from `https` to `http`.
    #[error("{from} redirects to {to}, which is not protected")]
    Unprotected {
        /// Who answered.
        from: HttpUrl,
        /// Where it leads.
        to: HttpUrl,
    },
    /// An answer without the content.
    #[error("{url} answered {status}, which is not the file")]
    NoContent {
        /// Who answered.
        url: HttpUrl,
        /// The HTTP status.
        status: u16,
    },
    /// What was fetched can't be kept.
    #[error("can't write `{}`", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The caller gave up.
    #[error("cancelled")]
    Cancelled,
}
