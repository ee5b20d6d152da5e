use std::fmt;

use crate::Format;

/// Why the records of a file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{file}`{}: {problem}", place(*at))]
pub struct RecordError {
    /// The file, as it was named by the caller.
    pub file: String,
    /// The record, if it is about one.
    pub at: Option<RecordAt>,
    /// What is wrong.
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

/// What is wrong with a file of records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordProblem {
    /// It is of another kind.
    #[error("records are read from CSV, JSON and JSON Lines, and it is {0}")]
    NoRecords(Format),
    /// It can't be read.
    #[error("damaged, or not {format}: {reason}")]
    Broken {
        /// What it was read as.
        format: Format,
        /// What its reader said.
        reason: String,
    },
    /// A row of a table is longer or shorter than its head.
    #[error("its row has {found} values, the head of the table has {expected}")]
    Width {
        /// Values of the row.
        found: u64,
        /// Values of the head.
        expected: u64,
    },
    /// The delimiter is no single ASCII character.
    #[error("`delimiter` must be one character such as `;`, not `{0}`")]
    Delimiter(String),
    /// A JSON file holds one object.
    #[error(
        "it holds one object, not a list of records; name the list in `record_path`{}",
        perhaps(lists)
    )]
    OneObject {
        /// Its fields that hold lists.
        lists: Vec<String>,
    },
    /// The record path leads nowhere.
    #[error(
        "`record_path` names `{step}`, and there is no such field{}",
        fields_there(fields)
    )]
    NoPath {
        /// The step that is missing.
        step: String,
        /// The fields there are.
        fields: Vec<String>,
    },
    /// The record path leads to something else than a list.
    #[error("`record_path` leads to what is not a list of records: it is {found}")]
    NoList {
        /// What it leads to.
        found: &'static str,
    },
    /// A record is no object.
    #[error("it is {found}, not an object with fields")]
    NoObject {
        /// What it is.
        found: &'static str,
    },
    /// A field is missing.
    #[error("there is no field `{field}`, which `{option}` names{}", fields_there(fields))]
    NoField {
        /// The option that names it.
        option: &'static str,
        /// The field.
        field: String,
        /// The fields there are.
        fields: Vec<String>,
    },
    /// The id is none.
    #[error("its `{field}` is {found}; an id must be text or a number")]
    NoId {
        /// The field of the id.
        field: String,
        /// What is there.
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

    pub(super) fn anywhere(self) -> RecordError {
        RecordError {
            file: String::new(),
            at: None,
            problem: self,
        }
    }
}

/// Field names that are told.
const TOLD: usize = 12;

fn place(at: Option<RecordAt>) -> String {
    at.map_or_else(String::new, |at| format!(", {at}"))
}

fn fields_there(fields: &[String]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let mut shown: Vec<String> = fields
        .iter()
        .take(TOLD)
        .map(|field| format!("`{field}`"))
        .collect();
    if fields.len() > TOLD {
        shown.push("…".to_owned());
    }
    format!("; there are {}", shown.join(", "))
}

fn perhaps(lists: &[String]) -> String {
    match lists.first() {
        Some(list) => format!(", perhaps `{list}`"),
        None => String::new(),
    }
}
