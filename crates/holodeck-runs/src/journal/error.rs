//! Why a journal cannot be used, and the versions of its format.

use std::path::Path;

use holodeck_model::io_reason;

/// The format before lines had digests.
pub(super) const WITHOUT_CHAIN: u64 = 2;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("journal `{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not valid.
    #[error("journal `{path}`, line {line}: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// The problem.
        reason: String,
    },
    /// The format version is not supported.
    #[error(
        "journal `{path}` has format version {found}; this holodeck reads versions {WITHOUT_CHAIN} and {JOURNAL_VERSION}"
    )]
    Version {
        /// The file.
        path: String,
        /// The version in the header.
        found: u64,
    },
    /// A line does not fit to the lines before it.
    #[error(
        "journal `{path}`: line {line} does not fit to the lines before it: the file was changed or damaged, and nothing \
         from there on counts"
    )]
    Broken {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
    },
    /// A line is not the one that was read or written before.
    #[error("journal `{path}` was changed by another program")]
    Changed {
        /// The file.
        path: String,
    },
    /// Its lines have no digests, so that it cannot be known whether they were changed.
    #[error("an earlier version of holodeck recorded run `{run_id}`, whose lines have no digests (`{path}`)")]
    WithoutChain {
        /// The run.
        run_id: String,
        /// The file.
        path: String,
    },
}

pub(super) fn io_error(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io {
        path: path.display().to_string(),
        source,
    }
}

/// The format that this version writes. Of version 2, whose lines have no digests, it only shows verdicts.
pub const JOURNAL_VERSION: u64 = 3;
