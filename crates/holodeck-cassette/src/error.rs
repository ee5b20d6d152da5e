use crate::FORMAT_VERSION;

/// Why a cassette can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file can't be read or written.
    #[error("cassette `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("cassette `{path}`, line {line}: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a version this one does not know.
    #[error("cassette `{path}` has format version {found}; this holodeck reads version {FORMAT_VERSION}")]
    Version {
        /// The file.
        path: String,
        /// The version it says.
        found: u64,
    },
    /// Nothing was recorded.
    #[error("cassette `{path}` holds no recorded call")]
    Empty {
        /// The file.
        path: String,
    },
}
