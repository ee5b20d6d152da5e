//! Why a file of a user could not be stored or read.

use std::io;

use holodeck_model::io_reason;

/// Why a file could not be stored or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is too large.
    #[error("the file is larger than {limit_mib} MiB (`attachments.max_file_mib`)")]
    TooLarge {
        /// The limit.
        limit_mib: u32,
    },
    /// Its user has as many files, or as many bytes, as are allowed.
    #[error("a user's files are limited to {limit}: delete some first")]
    Quota {
        /// The limit, with its name.
        limit: String,
    },
    /// Agents can't read files of this kind.
    #[error("{reason}")]
    Unsupported {
        /// Why.
        reason: String,
    },
    /// It does not exist, or belongs to another user.
    #[error("file `{id}` does not exist")]
    NotFound {
        /// The id.
        id: String,
    },
    /// The folder of the files can't be used.
    #[error("{reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

pub(crate) fn failed(reason: &str) -> FileError {
    FileError::Failed {
        reason: reason.to_owned(),
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        failed(&format!(
            "the folder of attached files can't be used: {}",
            io_reason(&error)
        ))
    }
}
