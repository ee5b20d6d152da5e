//! Records of JSON, as `json_normalize` of pandas reads them: dotted names of nested fields, a path to the list of
//! records, and fields outside that list.

use holodeck_model::{JsonMap, json_kind};
use serde_json::Value;

use super::{Reader, RecordAt, RecordError, RecordOptions, RecordProblem};
use crate::Format;

pub(super) fn read(text: &str, reader: &mut Reader<'_>) -> Result<(), RecordError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        RecordProblem::Broken {
            format: Format::Json,
            reason: error.to_string(),
        }
        .in_file()
    })?;
    let mut seen = OptionalFields::new(reader.options);
    match &value {
        Value::Array(values) => {
            for value in values {
                seen.read_element(value, None, reader)?;
            }
        }
        Value::Object(fields) => {
            let options = reader.options;
            if options.record_path.is_none() && own_field(&value, &options.id_field, options).is_none() {
                let lists = fields
                    .iter()
                    .filter(|(_, value)| value.is_array())
                    .map(|(name, _)| name.clone());
                return Err(RecordProblem::OneObject {
                    lists: lists.collect(),
                }
                .in_file());
            }
            seen.read_element(&value, None, reader)?;
        }
        other => {
            return Err(RecordProblem::NoList {
                found: json_kind(other),
            }
            .in_file());
        }
    }
    seen.finish(reader)
}

pub(super) fn read_lines(text: &str, reader: &mut Reader<'_>) -> Result<(), RecordError> {
    let mut seen = OptionalFields::new(reader.options);
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let broken = RecordProblem::Broken {
                format: Format::JsonLines,
                reason: error.to_string(),
            };
            broken.at(RecordAt {
                record: reader.number + 1,
                line: Some(line),
            })
        })?;
        seen.read_element(&value, Some(line), reader)?;
    }
    seen.finish(reader)
}

/// Optional fields encountered so far.
struct OptionalFields {
    /// Whether each of the `meta_fields` occurred at least once.
    meta: Vec<bool>,
    /// The fields of the first record.
    fields: Vec<String>,
}

impl OptionalFields {
    fn new(options: &RecordOptions) -> Self {
        Self {
            meta: vec![false; options.meta_fields.len()],
            fields: Vec::new(),
        }
    }

    /// Reads one element of the file: a record, or the list that the path leads to.
    fn read_element(
        &mut self,
        value: &Value,
        line: Option<u64>,
        reader: &mut Reader<'_>,
    ) -> Result<(), RecordError> {
        let Some(path) = reader.options.record_path.as_deref() else {
            return self.record(value, &[], line, reader);
        };
        // The notation of other programs for the same path.
        let path = path.trim().trim_start_matches("$.");
        let path = path.strip_suffix("[*]").unwrap_or(path);
        self.follow(value, path, &mut vec![value], line, reader)
    }

    fn follow<'v>(
        &mut self,
        value: &'v Value,
        path: &str,
        around: &mut Vec<&'v Value>,
        line: Option<u64>,
        reader: &mut Reader<'_>,
    ) -> Result<(), RecordError> {
        let at = |reader: &Reader<'_>| RecordAt {
            record: reader.number + 1,
            line,
        };
        let Value::Object(fields) = value else {
            let found = json_kind(value);
            return Err(RecordProblem::NoObject { found }.at(at(reader)));
        };
        let (step, rest) = match fields.get(path) {
            Some(_) => (path, None),
            None => match path.split_once('.') {
                Some((step, rest)) => (step.strip_suffix("[*]").unwrap_or(step), Some(rest)),
                None => (path, None),
            },
        };
        let Some(next) = fields.get(step) else {
            let problem = RecordProblem::NoPath {
                step: step.to_owned(),
                fields: fields.keys().cloned().collect(),
            };
            return Err(problem.at(at(reader)));
        };
        match (next, rest) {
            // A missing list counts as empty.
            (Value::Null, _) => Ok(()),
            (Value::Array(records), None) => {
                for record in records {
                    self.record(record, around, line, reader)?;
                }
                Ok(())
            }
            (other, None) => Err(RecordProblem::NoList {
                found: json_kind(other),
            }
            .at(at(reader))),
            (Value::Array(values), Some(rest)) => {
                for value in values {
                    around.push(value);
                    self.follow(value, rest, around, line, reader)?;
                    around.pop();
                }
                Ok(())
            }
            (next, Some(rest)) => {
                around.push(next);
                self.follow(next, rest, around, line, reader)?;
                around.pop();
                Ok(())
            }
        }
    }

    fn record(
        &mut self,
        record: &Value,
        around: &[&Value],
        line: Option<u64>,
        reader: &mut Reader<'_>,
    ) -> Result<(), RecordError> {
        let options = reader.options;
        reader.number += 1;
        let at = RecordAt {
            record: reader.number,
            line,
        };
        let Value::Object(fields) = record else {
            return Err(RecordProblem::NoObject {
                found: json_kind(record),
            }
            .at(at));
        };
        let names = || {
            let prefix = options.record_prefix.as_deref().unwrap_or_default();
            fields
                .keys()
                .map(|name| format!("{prefix}{name}"))
                .collect::<Vec<_>>()
        };
        if self.fields.is_empty() {
            self.fields = names();
        }
        let find = |option: &'static str, field: &str| {
            let found = own_field(record, field, options).or_else(|| surrounding(around, field, options));
            found.ok_or_else(|| {
                RecordProblem::NoField {
                    option,
                    field: field.to_owned(),
                    fields: names(),
                }
                .at(at)
            })
        };
        let (_, id) = find("id_field", &options.id_field)?;
        let texts = options
            .vector_fields
            .iter()
            .map(|field| Ok(text(find("vector_field", field)?.1)));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let mut metadata = JsonMap::new();
        for (field, seen) in options.meta_fields.iter().zip(&mut self.meta) {
            let found = own_field(record, field, options).or_else(|| surrounding(around, field, options));
            if let Some((name, value)) = found {
                *seen = true;
                if !value.is_null() {
                    metadata.insert(name, value.clone());
                }
            }
        }
        reader.take(at, id, texts.into_iter(), metadata)
    }

    /// A field that no record has is a mistake.
    fn finish(self, reader: &Reader<'_>) -> Result<(), RecordError> {
        if reader.number == 0 {
            return Ok(());
        }
        let mut fields = reader.options.meta_fields.iter().zip(&self.meta);
        match fields.find(|(_, seen)| !**seen) {
            Some((field, _)) => Err(RecordProblem::NoField {
                option: "meta_fields",
                field: field.clone(),
                fields: self.fields,
            }
            .in_file()),
            None => Ok(()),
        }
    }
}

/// A field of the record itself, by its name with or without the prefix, and its output name.
fn own_field<'v>(record: &'v Value, field: &str, options: &RecordOptions) -> Option<(String, &'v Value)> {
    let prefix = options.record_prefix.as_deref().unwrap_or_default();
    let plain = field.strip_prefix(prefix).filter(|plain| !plain.is_empty());
    let names = plain.into_iter().chain([field]);
    names
        .into_iter()
        .find_map(|name| Some((format!("{prefix}{name}"), find(record, name)?)))
}

/// A field of the enclosing objects, innermost first.
fn surrounding<'v>(
    around: &[&'v Value],
    field: &str,
    options: &RecordOptions,
) -> Option<(String, &'v Value)> {
    let prefix = options.meta_prefix.as_deref().unwrap_or_default();
    let plain = field.strip_prefix(prefix).filter(|plain| !plain.is_empty());
    let names = plain.into_iter().chain([field]);
    names.into_iter().find_map(|name| {
        let value = around.iter().rev().find_map(|value| find(value, name))?;
        Some((format!("{prefix}{name}"), value))
    })
}

/// A field by its name or its dotted path.
fn find<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let fields = value.as_object()?;
    if let Some(found) = fields.get(name) {
        return Some(found);
    }
    let (first, rest) = name.split_once('.')?;
    find(fields.get(first)?, rest)
}

/// A value as searchable text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(text).filter(|text| !text.is_empty()).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}
