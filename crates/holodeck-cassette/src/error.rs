//! The reasons for which a recording cannot be written or used.

use holodeck_model::io_reason;

use crate::FORMAT_VERSION;

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read or written.
    #[error("cassette `{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not valid.
    #[error("cassette `{path}`, line {line}: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// The problem.
        reason: String,
    },
    /// The format version is not supported.
    #[error("cassette `{path}` has format version {found}; this holodeck reads version {FORMAT_VERSION}")]
    Version {
        /// The file.
        path: String,
        /// The version in the header.
        found: u64,
    },
    /// Nothing was recorded.
    #[error("cassette `{path}` holds no recorded call")]
    Empty {
        /// The file.
        path: String,
    },
}
