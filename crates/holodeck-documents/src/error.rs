use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Format;

/// Why a file could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{file}`: {problem}")]
pub struct DocumentError {
    /// The file, as it was named by the caller.
    pub file: String,
    /// What is wrong.
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

/// What is wrong with a file, or with what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// There is no such file.
    #[error("no such file")]
    NotFound,
    /// The system refuses to read it.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// It is larger than allowed.
    #[error("it has {size} bytes, more than the {limit} allowed")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The bytes allowed.
        limit: u64,
    },
    /// It is of a kind that is not read.
    #[error("{0} not read")]
    Unsupported(String),
    /// Its name promises something else than it holds.
    #[error("its name says {named}, but its content does not")]
    Mismatch {
        /// What its name says.
        named: Format,
    },
    /// It can't be opened without a password.
    #[error("it is protected by a password")]
    Encrypted,
    /// It is damaged, or not what it claims to be.
    #[error("damaged, or not {format}: {reason}")]
    Broken {
        /// What it was read as.
        format: Format,
        /// What is wrong.
        reason: String,
    },
    /// It holds no such page or slide.
    #[error("there is no page {page}: it has {count}")]
    NoPage {
        /// The page asked for.
        page: u32,
        /// How many it has.
        count: usize,
    },
    /// The workbook holds no such sheet.
    #[error("there is no sheet `{sheet}`: it has {}", quoted(.sheets))]
    NoSheet {
        /// The sheet asked for.
        sheet: String,
        /// Those it has.
        sheets: Vec<String>,
    },
    /// Not a range of cells.
    #[error("`{0}` is not a range of cells such as `A1:E100`")]
    BadRange(String),
    /// An option that means nothing for this kind of file.
    #[error("`{option}` does not apply to {format}")]
    Unfit {
        /// The option.
        option: String,
        /// What the file is.
        format: Format,
    },
    /// Converting it reached a limit.
    #[error("{0}")]
    Limit(Limit),
    /// The program that converted it crashed.
    #[error("converting it crashed: {0}")]
    Crashed(String),
    /// The program that converts hostile formats did not start, or did not answer.
    #[error("the converter does not work: {0}")]
    Converter(String),
    /// The caller did not want it any more.
    #[error("cancelled")]
    Cancelled,
}

/// A limit on what converting one file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Time.
    Time(Duration),
    /// Bytes of memory; 0 if how many is not known.
    Memory(u64),
    /// Bytes of text that come of it.
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
            Self::Memory(0) => f.write_str("converting it takes more memory than there is"),
            Self::Memory(bytes) => write!(f, "converting it takes more than {} of memory", size(bytes)),
            Self::Output(bytes) => write!(f, "its text is larger than {}", size(bytes)),
            Self::Expanded(bytes) => write!(f, "it expands to more than {}", size(bytes)),
            Self::Entries(count) => write!(f, "it holds more than {count} files"),
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
