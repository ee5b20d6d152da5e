//! YAML, JSON and CSV that was written for another tool, as values that know their lines.
//!
//! Nothing in it has a meaning here: no `${VAR}` is replaced, no field is known.

use std::{path::Path, sync::Arc};

use holodeck_model::{Layer, Source};
use serde_json::{Number, Value};

use crate::{
    load::{CsvRows, read_foreign_sheet},
    yaml::{Core, NodeId, SourceFile, Tree, build, resolve},
};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct ForeignNode {
    /// The file.
    pub path: Arc<Path>,
    /// The line, counted from 1.
    pub line: usize,
    /// The value.
    pub value: ForeignValue,
}

/// A value of a foreign file.
#[derive(Clone, Debug)]
pub enum ForeignValue {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<ForeignNode>),
    /// A mapping in the order of the file.
    Map(Vec<(String, ForeignNode)>),
}

/// Why a foreign file cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ForeignError {
    /// The line, where it is known.
    pub line: Option<usize>,
    /// The reason, without the file.
    pub message: String,
}

/// Reads YAML or JSON, with anchors, aliases and merge keys.
pub fn read_foreign(path: &Path, text: &str) -> Result<ForeignNode, ForeignError> {
    let source = Source {
        path: path.into(),
        text: text.into(),
    };
    let mut tree = Tree::default();
    let file = tree.add_file(SourceFile::new(source, Layer::Agent));
    let built = build(&mut tree, file, 0..text.len(), None);
    let Some(root) = built.root else {
        let first = built.diagnostics.first();
        return Err(ForeignError {
            line: first.and_then(|found| Some(found.primary.as_ref()?.line)),
            message: first.map_or_else(|| "the file is empty".to_owned(), |found| found.message.clone()),
        });
    };
    // A key that is there twice has two meanings; other tools refuse such a file as well.
    if let Some(found) = built.diagnostics.first() {
        return Err(ForeignError {
            line: found.primary.as_ref().map(|place| place.line),
            message: found.message.clone(),
        });
    }
    Ok(node(&tree, root, &path.into()))
}

/// Reads comma-separated values: a mapping for each row, by the names of the first.
pub fn read_foreign_table(path: &Path, text: &str) -> Result<Vec<ForeignNode>, ForeignError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let path: Arc<Path> = path.into();
    let mut rows = CsvRows::new(text);
    let mut names: Option<Vec<String>> = None;
    let mut result = Vec::new();
    while let Some(row) = rows.next_row() {
        let start = row.cells.first().map_or(0, |cell| cell.start);
        let line = 1 + newlines(text, start);
        if let Some(at) = row.misquoted.first() {
            return Err(ForeignError {
                line: Some(1 + newlines(text, *at)),
                message: "a quote of a cell is wrong: it is not closed, or text is beside it".to_owned(),
            });
        }
        let cells: Vec<String> = row.cells.iter().map(|cell| cell.text(text).to_owned()).collect();
        let Some(names) = &names else {
            names = Some(cells.into_iter().map(|name| name.trim().to_owned()).collect());
            continue;
        };
        if cells.len() != names.len() {
            return Err(ForeignError {
                line: Some(line),
                message: format!("the row has {} cells, the first row {}", cells.len(), names.len()),
            });
        }
        result.push(named_row(&path, line, names, cells));
    }
    Ok(result)
}

/// Reads the first sheet of a workbook, as [`read_foreign_table`] does, and says what of the workbook is not in the rows.
pub fn read_foreign_workbook(
    path: &Path,
    bytes: &[u8],
) -> Result<(Vec<ForeignNode>, Vec<String>), ForeignError> {
    let sheet = read_foreign_sheet(bytes).map_err(|(line, message)| ForeignError { line, message })?;
    let path: Arc<Path> = path.into();
    let mut rows = sheet.rows.into_iter();
    let names = rows.next().map(|(_, names)| names).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    let mut result = Vec::new();
    for (line, mut cells) in rows {
        let unnamed = cells.iter().enumerate().skip(names.len());
        if let Some((column, _)) = unnamed.into_iter().find(|(_, text)| !text.trim().is_empty()) {
            return Err(ForeignError {
                line: Some(line),
                message: format!("column {} has a text, but no name in the first row", column + 1),
            });
        }
        // Cells that the sheet leaves out at the end are empty.
        cells.resize(names.len(), String::new());
        result.push(named_row(&path, line, &names, cells));
    }
    Ok((result, sheet.notes))
}

/// A row as a mapping by the names of the columns.
fn named_row(path: &Arc<Path>, line: usize, names: &[String], cells: Vec<String>) -> ForeignNode {
    let entries = names.iter().cloned().zip(cells).map(|(name, cell)| {
        let cell = ForeignNode::new(Arc::clone(path), line, ForeignValue::Text(cell));
        (name, cell)
    });
    ForeignNode::new(Arc::clone(path), line, ForeignValue::Map(entries.collect()))
}

fn newlines(text: &str, end: u32) -> usize {
    text.get(..end as usize).unwrap_or_default().matches('\n').count()
}

fn node(tree: &Tree, id: NodeId, path: &Arc<Path>) -> ForeignNode {
    let value = if let Some(items) = tree.items(id) {
        ForeignValue::List(items.iter().map(|item| node(tree, *item, path)).collect())
    } else if let Some(entries) = tree.entries(id) {
        let entries = entries
            .iter()
            .map(|entry| (tree.key(entry).to_owned(), node(tree, entry.value, path)));
        ForeignValue::Map(entries.collect())
    } else {
        tree.scalar(id).map_or(ForeignValue::Null, |scalar| {
            if scalar.plain {
                plain(scalar.text)
            } else {
                ForeignValue::Text(scalar.text.to_owned())
            }
        })
    };
    let line = tree.location(tree.place(id)).line;
    ForeignNode::new(path.clone(), line, value)
}

fn plain(text: &str) -> ForeignValue {
    match resolve(text) {
        Core::Null => ForeignValue::Null,
        Core::Bool(value) => ForeignValue::Bool(value),
        Core::Int(value) => ForeignValue::Number(value.into()),
        Core::Unsigned(value) => ForeignValue::Number(value.into()),
        Core::Float(value) => {
            Number::from_f64(value).map_or_else(|| ForeignValue::Text(text.to_owned()), ForeignValue::Number)
        }
        Core::Str => ForeignValue::Text(text.to_owned()),
    }
}

impl ForeignNode {
    /// A value at a place.
    pub fn new(path: Arc<Path>, line: usize, value: ForeignValue) -> Self {
        Self { path, line, value }
    }

    /// A JSON value, all of it at one place.
    pub fn from_json(value: &Value, at: &Self) -> Self {
        let value = match value {
            Value::Null => ForeignValue::Null,
            Value::Bool(value) => ForeignValue::Bool(*value),
            Value::Number(value) => ForeignValue::Number(value.clone()),
            Value::String(text) => ForeignValue::Text(text.clone()),
            Value::Array(items) => {
                ForeignValue::List(items.iter().map(|item| Self::from_json(item, at)).collect())
            }
            Value::Object(map) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::from_json(value, at)));
                ForeignValue::Map(entries.collect())
            }
        };
        Self::new(at.path.clone(), at.line, value)
    }

    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        match &self.value {
            ForeignValue::Null => Value::Null,
            ForeignValue::Bool(value) => Value::Bool(*value),
            ForeignValue::Number(value) => Value::Number(value.clone()),
            ForeignValue::Text(text) => Value::String(text.clone()),
            ForeignValue::List(items) => items.iter().map(Self::to_json).collect(),
            ForeignValue::Map(entries) => entries
                .iter()
                .map(|(key, value)| (key.clone(), value.to_json()))
                .collect(),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The entries of a mapping; none of anything else.
    pub fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            ForeignValue::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.value {
            ForeignValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            ForeignValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match &self.value {
            ForeignValue::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.value, ForeignValue::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn anchors_and_merge_keys_become_values_and_lines_stay() {
        let text = "a: &x {n: 1, t: 'yes'}\nb:\n  <<: *x\n  n: 2\nc: ['${HOME}', on, ~]\n";
        let read = read_foreign(Path::new("f.yaml"), text).unwrap();
        assert_eq!(
            read.to_json(),
            json!({"a": {"n": 1, "t": "yes"}, "b": {"n": 2, "t": "yes"}, "c": ["${HOME}", "on", null]})
        );
        assert_eq!(read.get("b").unwrap().get("n").unwrap().line, 4);
    }

    #[test]
    fn what_is_not_yaml_is_refused_with_its_line() {
        let error = read_foreign(Path::new("f.yaml"), "a: 1\nb: [2\n").unwrap_err();
        assert!(error.line.is_some(), "{error:?}");
        assert!(read_foreign(Path::new("f.yaml"), "").is_err());
        assert!(read_foreign(Path::new("f.yaml"), "a: 1\na: 2\n").is_err());
    }

    #[test]
    fn cells_over_several_lines_keep_the_line_of_their_row() {
        let rows = read_foreign_table(Path::new("f.csv"), "q,a\n\"x\ny\",1\nz,\"say \"\"hi\"\"\"\n").unwrap();
        assert_eq!(rows[0].to_json(), json!({"q": "x\ny", "a": "1"}));
        assert_eq!(rows[1].to_json(), json!({"q": "z", "a": "say \"hi\""}));
        assert_eq!((rows[0].line, rows[1].line), (2, 4));
        assert!(read_foreign_table(Path::new("f.csv"), "q,a\n1\n").is_err());
    }
}
