//! The reasons for which a file cannot be converted, each with the file it concerns.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Format;

/// Why a file could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{file}`: {problem}")]
pub struct DocumentError {
    /// The file, as the caller named it.
    pub file: String,
    /// The problem.
    pub problem: Problem,
}

impl DocumentError {
    pub(crate) fn new(file: impl Into<String>, problem: Problem) -> Self {
        Self {
            file: file.into(),
            problem,
        }
    }
}

/// A problem with a file, or with what was requested of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// The file does not exist.
    #[error("no such file")]
    NotFound,
    /// The system can't read it.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// It exceeds the size limit.
    #[error("it has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The size limit.
        limit: u64,
    },
    /// Its format is not supported.
    #[error("{0} not supported")]
    Unsupported(String),
    /// Its content does not match its extension.
    #[error("it has the extension of {named}, but other content")]
    Mismatch {
        /// The format of its extension.
        named: Format,
    },
    /// No character set fits its text.
    #[error("can't be read as text: {0}")]
    Undecodable(String),
    /// It requires a password.
    #[error("it is protected by a password")]
    Encrypted,
    /// It is damaged, or has another format.
    #[error("damaged, or not {format}: {reason}")]
    Broken {
        /// The format it was read as.
        format: Format,
        /// The reason.
        reason: String,
    },
    /// It has no such page or slide.
    #[error("there is no page {page}: it has {count}")]
    NoPage {
        /// The requested page.
        page: u32,
        /// The number of pages.
        count: usize,
    },
    /// The workbook has no such sheet.
    #[error("there is no sheet `{sheet}`: it has {}", quoted(.sheets))]
    NoSheet {
        /// The requested sheet.
        sheet: String,
        /// The existing sheets.
        sheets: Vec<String>,
    },
    /// Not a range of cells.
    #[error("`{0}` is not a range of cells such as `A1:E100`")]
    BadRange(String),
    /// An option that does not apply to this format.
    #[error("`{option}` does not apply to {format}")]
    Unfit {
        /// The option.
        option: String,
        /// The format.
        format: Format,
    },
    /// The conversion reached a limit.
    #[error("{0}")]
    Limit(Limit),
    /// The program that converted it crashed.
    #[error("converting it crashed: {0}")]
    Crashed(String),
    /// The converter process did not start, or did not answer.
    #[error("the converter failed: {0}")]
    Converter(String),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// A limit on converting one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Time.
    Time(Duration),
    /// Bytes of memory; 0 if unknown.
    Memory(u64),
    /// Bytes of the resulting text.
    Output(u64),
    /// Bytes that a compressed file expands to.
    Expanded(u64),
    /// Files inside an archive.
    Entries(u64),
    /// Levels of nesting.
    Depth(u64),
    /// Cells of a workbook.
    Cells(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Time(time) => write!(f, "converting it takes longer than {} s", time.as_secs_f64()),
            Self::Memory(0) => f.write_str("converting it takes more memory than is available"),
            Self::Memory(bytes) => write!(f, "converting it takes more than {} of memory", size(bytes)),
            Self::Output(bytes) => write!(f, "its text is larger than {}", size(bytes)),
            Self::Expanded(bytes) => write!(f, "it expands to more than {}", size(bytes)),
            Self::Entries(count) => write!(f, "it contains more than {count} files"),
            Self::Depth(levels) => write!(f, "it is nested deeper than {levels} levels"),
            Self::Cells(count) => write!(f, "it has more than {count} cells"),
        }
    }
}

impl From<Limit> for Problem {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;
    match bytes {
        MIB.. if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        KIB.. if bytes.is_multiple_of(KIB) => format!("{} KiB", bytes / KIB),
        _ => format!("{bytes} bytes"),
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
