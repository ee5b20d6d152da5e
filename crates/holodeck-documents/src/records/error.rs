//! The reasons for which the records of a file cannot be read, with the record and line they concern.

use std::fmt;

use crate::Format;

/// Why the records of a file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{file}`{}: {problem}", place(*at))]
pub struct RecordError {
    /// The file, as the caller named it.
    pub file: String,
    /// The record, if the error concerns one.
    pub at: Option<RecordAt>,
    /// The problem.
    pub problem: RecordProblem,
}

/// A record's place in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordAt {
    /// Its number, counted from 1; a table's head does not count.
    pub record: usize,
    /// The line that it begins in, where the format has lines.
    pub line: Option<u64>,
}

impl fmt::Display for RecordAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.record)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

/// A problem with a file of records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordProblem {
    /// It has another format.
    #[error("records must be CSV, JSON or JSON Lines, not {0}")]
    NoRecords(Format),
    /// It can't be read.
    #[error("damaged, or not {format}: {reason}")]
    Broken {
        /// The format it was read as.
        format: Format,
        /// The reader's reason.
        reason: String,
    },
    /// No character set fits its text.
    #[error("{0}")]
    Undecodable(String),
    /// A row of a table is longer or shorter than its head.
    #[error("its row has {found} values, the head of the table has {expected}")]
    Width {
        /// Values of the row.
        found: u64,
        /// Values of the head.
        expected: u64,
    },
    /// The delimiter is not a single ASCII character.
    #[error("`delimiter` must be one character such as `;`, not `{0}`")]
    Delimiter(String),
    /// A JSON file holds one object.
    #[error(
        "it holds one object, not a list of records; name the list in `record_path`{}",
        suggestion(lists)
    )]
    OneObject {
        /// Its fields that hold lists.
        lists: Vec<String>,
    },
    /// The record path does not exist.
    #[error(
        "`record_path` names `{step}`, which does not exist{}",
        existing_fields(fields)
    )]
    NoPath {
        /// The missing step.
        step: String,
        /// The existing fields.
        fields: Vec<String>,
    },
    /// The record path does not lead to a list.
    #[error("`record_path` must point to a list of records, found {found}")]
    NoList {
        /// The value it leads to.
        found: &'static str,
    },
    /// A record is not an object.
    #[error("it is {found}, not an object with fields")]
    NoObject {
        /// The value.
        found: &'static str,
    },
    /// A field is missing.
    #[error(
        "`{option}` names field `{field}`, which does not exist{}",
        existing_fields(fields)
    )]
    NoField {
        /// The option that names it.
        option: &'static str,
        /// The field.
        field: String,
        /// The existing fields.
        fields: Vec<String>,
    },
    /// The id is missing or has the wrong type.
    #[error("its `{field}` is {found}; an id must be a string or a number")]
    NoId {
        /// The field of the id.
        field: String,
        /// The value.
        found: &'static str,
    },
    /// Two records have the same id.
    #[error("its `{field}` is `{id}`, as in record {first}; ids must be unique")]
    SameId {
        /// The field of the id.
        field: String,
        /// The id.
        id: String,
        /// The number of the record that had it first.
        first: usize,
    },
}

impl RecordProblem {
    pub(super) fn at(self, at: RecordAt) -> RecordError {
        RecordError {
            file: String::new(),
            at: Some(at),
            problem: self,
        }
    }

    pub(super) fn in_file(self) -> RecordError {
        RecordError {
            file: String::new(),
            at: None,
            problem: self,
        }
    }
}

/// Maximum number of field names in a message.
const MAX_FIELDS: usize = 12;

fn place(at: Option<RecordAt>) -> String {
    at.map_or_else(String::new, |at| format!(", {at}"))
}

fn existing_fields(fields: &[String]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let mut shown: Vec<String> = fields
        .iter()
        .take(MAX_FIELDS)
        .map(|field| format!("`{field}`"))
        .collect();
    if fields.len() > MAX_FIELDS {
        shown.push("…".to_owned());
    }
    format!("; existing fields: {}", shown.join(", "))
}

fn suggestion(lists: &[String]) -> String {
    match lists.first() {
        Some(list) => format!(", perhaps `{list}`"),
        None => String::new(),
    }
}
