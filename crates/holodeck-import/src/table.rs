//! Any table as test cases.

use std::path::Path;

use holodeck_yaml::ForeignNode;
use serde_json::{Map, Value};

use crate::{
    Import, ImportError, ImportedFile, SourceFiles,
    findings::Findings,
    reader::{read_lines, read_node, read_rows, read_workbook},
    writer::document,
};

/// The fields of a case that a column can be.
const FIELDS: [&str; 6] = [
    "name",
    "input",
    "ground_truth",
    "retrieval_context",
    "expected_tools",
    "tags",
];

/// Converts a table by `columns`: the name of a column, and the field of a case that it is.
pub fn import_table(
    source: &Path,
    columns: &[(String, String)],
    files: &dyn SourceFiles,
) -> Result<Import, ImportError> {
    let extension = source
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let mut notes = Vec::new();
    let rows = match extension.as_str() {
        "csv" => read_rows(files, source)?,
        "xlsx" => {
            let (rows, unread) = read_workbook(files, source)?;
            notes = unread;
            rows
        }
        "jsonl" | "ndjson" => read_lines(files, source)?,
        "json" | "yaml" | "yml" => {
            let node = read_node(files, source)?;
            node.items()
                .map(<[_]>::to_vec)
                .ok_or_else(|| ImportError::at(&node, "is not a list of rows"))?
        }
        other => {
            return Err(ImportError::new(
                source,
                format!("`.{other}` is not CSV, XLSX, JSON, JSON Lines or YAML"),
            ));
        }
    };
    for (column, field) in columns {
        if !FIELDS.contains(&field.as_str()) {
            let message = format!(
                "`{field}` is not a field of a case that a column can be: {}",
                FIELDS.join(", ")
            );
            return Err(ImportError::new(source, message));
        }
        if columns.iter().filter(|(_, other)| other == field).count() > 1 {
            return Err(ImportError::new(source, format!("two columns are `{field}`")));
        }
        if let Some(first) = rows.first()
            && !rows.iter().any(|row| row.get(column).is_some())
        {
            let names: Vec<&str> = first.entries().iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("there is no column `{column}`, but {}", names.join(", "));
            return Err(ImportError::new(source, message));
        }
    }
    if !columns.iter().any(|(_, field)| field == "input") {
        return Err(ImportError::new(
            source,
            "no column is `input`: `--columns COLUMN=input`",
        ));
    }
    let mut findings = Findings::default();
    let mut cases = Vec::new();
    for row in &rows {
        cases.extend(case(row, columns, &mut findings));
    }
    if let Some(first) = rows.first() {
        for note in notes {
            findings.ignored(first, note, "");
        }
        for (name, _) in first.entries() {
            if !columns.iter().any(|(column, _)| column == name) {
                findings.ignored(first, format!("the column `{name}`"), "`--columns` with it");
            }
        }
    }
    let count = cases.len();
    let text = document(
        &["Test cases; `holodeck import table` wrote them.".to_owned()],
        &Value::Array(cases),
    );
    Ok(Import {
        files: vec![ImportedFile {
            path: "cases.yaml".into(),
            text,
        }],
        findings: findings.finish(),
        agents: Vec::new(),
        cases: count,
    })
}

fn case(row: &ForeignNode, columns: &[(String, String)], findings: &mut Findings) -> Option<Value> {
    let mut case = Map::new();
    for field in FIELDS {
        let Some((column, _)) = columns.iter().find(|(_, of)| of == field) else {
            continue;
        };
        let value = row.get(column).map(ForeignNode::to_json).unwrap_or_default();
        let text = crate::template::javascript_text(&value);
        if text.trim().is_empty() {
            continue;
        }
        let value = match field {
            "retrieval_context" | "expected_tools" | "tags" if value.is_array() => value,
            "retrieval_context" => Value::from(vec![text]),
            "expected_tools" | "tags" => text
                .split(';')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(Value::from)
                .collect(),
            _ => Value::from(text),
        };
        case.insert(field.to_owned(), value);
    }
    if !case.contains_key("input") {
        findings.left_out(row, "a row without `input`", "");
        return None;
    }
    Some(Value::Object(case))
}
