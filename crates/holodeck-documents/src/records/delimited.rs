//! Records of CSV and TSV: the first line names the fields.

use csv::{ReaderBuilder, StringRecord, Trim};
use holodeck_model::JsonMap;
use serde_json::Value;

use super::{Reader, RecordAt, RecordError, RecordProblem};
use crate::Format;
use crate::convert::delimited::likely_separator;

pub(super) fn read(text: &str, separator: Option<u8>, reader: &mut Reader<'_>) -> Result<(), RecordError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let options = reader.options;
    // Excel's own declaration of the separator.
    let (declared, text) = match text.strip_prefix("sep=").and_then(|rest| rest.split_once('\n')) {
        Some((declared, rest)) if declared.len() == 1 => (declared.bytes().next(), rest),
        _ => (None, text),
    };
    let separator = match options.delimiter.as_deref() {
        Some(delimiter) => delimiter_byte(delimiter)?,
        None => declared.or(separator).unwrap_or_else(|| likely_separator(text)),
    };
    let mut rows = ReaderBuilder::new()
        .delimiter(separator)
        .trim(Trim::Headers)
        // Widths are checked below: a row of blank values may have any.
        .flexible(true)
        .from_reader(text.as_bytes());
    let broken = |error: &csv::Error| RecordProblem::Broken {
        format: Format::Csv,
        reason: error.to_string(),
    };
    let head = rows.headers().map_err(|error| broken(&error).in_file())?.clone();
    let columns = Columns::of(&head, reader)?;
    let mut row = StringRecord::new();
    loop {
        let line = rows.position().line();
        let at = RecordAt {
            record: reader.number + 1,
            line: Some(line),
        };
        let more = rows
            .read_record(&mut row)
            .map_err(|error| broken(&error).at(at))?;
        if !more {
            return Ok(());
        }
        let texts = row
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.trim().is_empty());
        let Some((last, _)) = texts.last() else {
            continue;
        };
        reader.number += 1;
        let at = RecordAt {
            line: row.position().map(csv::Position::line).or(at.line),
            ..at
        };
        // Blank values after the last column are how spreadsheets pad rows.
        if last >= head.len() || row.len() < head.len() {
            return Err(RecordProblem::Width {
                found: row.len() as u64,
                expected: head.len() as u64,
            }
            .at(at));
        }
        let value = |column: usize| row.get(column).unwrap_or_default();
        let mut metadata = JsonMap::new();
        for (name, column) in &columns.meta {
            if !value(*column).is_empty() {
                metadata.insert(name.clone(), value(*column).into());
            }
        }
        let id = Value::String(value(columns.id).to_owned());
        let parts = columns.text.iter().map(|column| value(*column).to_owned());
        reader.take(at, &id, parts, metadata)?;
    }
}

/// The role of each column.
struct Columns {
    id: usize,
    text: Vec<usize>,
    meta: Vec<(String, usize)>,
}

impl Columns {
    fn of(head: &StringRecord, reader: &Reader<'_>) -> Result<Self, RecordError> {
        let options = reader.options;
        let prefix = options.record_prefix.as_deref().unwrap_or_default();
        let find = |option: &'static str, field: &str| {
            let plain = field.strip_prefix(prefix).unwrap_or(field);
            let column = head.iter().position(|name| name == plain);
            let column = column.or_else(|| head.iter().position(|name| name == field));
            column.ok_or_else(|| {
                RecordProblem::NoField {
                    option,
                    field: field.to_owned(),
                    fields: head.iter().map(|name| format!("{prefix}{name}")).collect(),
                }
                .in_file()
            })
        };
        let text = options
            .vector_fields
            .iter()
            .map(|field| find("vector_field", field));
        let meta = options.meta_fields.iter().map(|field| {
            let column = find("meta_fields", field)?;
            Ok((
                format!("{prefix}{}", head.get(column).unwrap_or_default()),
                column,
            ))
        });
        Ok(Self {
            id: find("id_field", &options.id_field)?,
            text: text.collect::<Result<_, _>>()?,
            meta: meta.collect::<Result<_, _>>()?,
        })
    }
}

fn delimiter_byte(delimiter: &str) -> Result<u8, RecordError> {
    match delimiter.as_bytes() {
        // A tab in YAML without escapes.
        b"\\t" | b"tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'"') => Ok(*byte),
        _ => Err(RecordProblem::Delimiter(delimiter.to_owned()).in_file()),
    }
}
