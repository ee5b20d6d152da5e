//! Records of structured files: a text each, with an id and metadata fields.

mod delimited;
mod error;
mod json;

use std::collections::HashMap;
use std::fmt::Write as _;

use holodeck_model::{JsonMap, json_kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Format;
use crate::text::{Declarations, decode};
pub(crate) use error::{RecordAt, RecordError, RecordProblem};

/// How the records of a file are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordOptions {
    /// The field that identifies a record.
    pub id_field: String,
    /// The fields that make its text, in this order.
    pub vector_fields: Vec<String>,
    /// The metadata fields.
    pub meta_fields: Vec<String>,
    /// The separator of the fields of the text.
    pub field_separator: String,
    /// The separator of CSV values; detected if absent.
    pub delimiter: Option<String>,
    /// JSON only: the dotted path to the list of records.
    pub record_path: Option<String>,
    /// Prefix of the names of a record's own fields.
    pub record_prefix: Option<String>,
    /// Prefix of the names of fields outside the list of records.
    pub meta_prefix: Option<String>,
}

impl RecordOptions {
    /// Everything that determines the records of a file, in one line.
    pub fn describe(&self) -> String {
        let Self {
            id_field,
            vector_fields,
            meta_fields,
            field_separator,
            delimiter,
            record_path,
            record_prefix,
            meta_prefix,
        } = self;
        let mut line =
            format!("records v1, id {id_field:?}, text {vector_fields:?} with {field_separator:?}");
        if !meta_fields.is_empty() {
            let _ = write!(line, ", meta {meta_fields:?}");
        }
        let more = [
            ("delimiter", delimiter),
            ("path", record_path),
            ("record prefix", record_prefix),
            ("meta prefix", meta_prefix),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                let _ = write!(line, ", {name} {value:?}");
            }
        }
        line
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Unique in its file.
    pub id: String,
    /// Its text; not empty.
    pub text: String,
    /// The metadata fields that have a value.
    pub metadata: JsonMap,
}

/// The records of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// In the order of the file.
    pub records: Vec<Record>,
    /// Notices for the user; lowercase, no full stop.
    pub notes: Vec<String>,
}

/// Reads the records of a CSV, TSV, JSON or JSON Lines file. `file` is its name in errors.
pub fn read_records(
    file: &str,
    format: Format,
    bytes: &[u8],
    options: &RecordOptions,
) -> Result<Records, RecordError> {
    let (text, notes) = decode(bytes, Declarations::default()).map_err(|problem| RecordError {
        file: file.to_owned(),
        ..RecordProblem::Undecodable(problem.to_string()).in_file()
    })?;
    let mut reader = Reader {
        options,
        records: Vec::new(),
        notes,
        ids: HashMap::new(),
        number: 0,
        without_text: Vec::new(),
    };
    let read = match format {
        Format::Csv => delimited::read(&text, None, &mut reader),
        Format::Tsv => delimited::read(&text, Some(b'\t'), &mut reader),
        Format::Json => json::read(&text, &mut reader),
        Format::JsonLines => json::read_lines(&text, &mut reader),
        other => Err(RecordProblem::NoRecords(other).in_file()),
    };
    match read {
        Ok(()) => Ok(reader.finish()),
        Err(mut error) => {
            file.clone_into(&mut error.file);
            Err(error)
        }
    }
}

/// The records read so far.
struct Reader<'a> {
    options: &'a RecordOptions,
    records: Vec<Record>,
    notes: Vec<String>,
    /// The numbers of the records by their ids.
    ids: HashMap<String, usize>,
    number: usize,
    without_text: Vec<usize>,
}

impl Reader<'_> {
    /// Adds a record; `parts` are the values of its text.
    fn take(
        &mut self,
        at: RecordAt,
        id: &Value,
        parts: impl Iterator<Item = String>,
        metadata: JsonMap,
    ) -> Result<(), RecordError> {
        let field = || self.options.id_field.clone();
        let id = match id {
            Value::String(id) => id.trim().to_owned(),
            Value::Number(id) => id.to_string(),
            other => {
                let found = json_kind(other);
                return Err(RecordProblem::NoId {
                    field: field(),
                    found,
                }
                .at(at));
            }
        };
        if id.is_empty() {
            let found = "empty";
            return Err(RecordProblem::NoId {
                field: field(),
                found,
            }
            .at(at));
        }
        if let Some(&first) = self.ids.get(&id) {
            let field = field();
            return Err(RecordProblem::SameId { field, id, first }.at(at));
        }
        self.ids.insert(id.clone(), at.record);
        let parts: Vec<String> = parts.filter(|part| !part.trim().is_empty()).collect();
        if parts.is_empty() {
            self.without_text.push(at.record);
            return Ok(());
        }
        self.records.push(Record {
            id,
            text: parts.join(&self.options.field_separator),
            metadata,
        });
        Ok(())
    }

    fn finish(mut self) -> Records {
        if let Some(first) = self.without_text.first() {
            let fields: Vec<String> = self
                .options
                .vector_fields
                .iter()
                .map(|field| format!("`{field}`"))
                .collect();
            let fields = fields.join(", ");
            self.notes.push(match self.without_text.len() {
                1 => format!("record {first} has no text in {fields} and is left out"),
                count => format!(
                    "{count} records have no text in {fields} and are left out; the first is record {first}"
                ),
            });
        }
        Records {
            records: self.records,
            notes: self.notes,
        }
    }
}

#[cfg(test)]
mod tests;
