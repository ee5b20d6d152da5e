//! Answers that exist, as rows with the columns of [`AnswerRow::COLUMNS`] and those of a test case.

use std::path::Path;

use holodeck_model::{AnswerRow, Code, Diagnostic, Env, Files, Layer, Source};
use serde_json::Value;

use super::{
    super::Loader,
    DataFormat,
    table::{RowKind, is_case_field},
};
use crate::{
    load::Load,
    yaml::{NodeId, Place, SourceFile, from_tree},
};

/// Reads answers that exist from a table or from JSON Lines. The problems are in the [`Load`], which has no agent; with an
/// error, there are no rows.
pub fn load_answers(path: &Path, env: &Env, files: &dyn Files) -> (Vec<AnswerRow>, Load) {
    let mut loader = Loader::new(env, files);
    // What is wrong with the file as a whole has no place in it.
    let source = Source {
        path: Path::new("").into(),
        text: "".into(),
    };
    let file = loader.tree.add_file(SourceFile::new(source, Layer::Cli));
    let named_at = Place {
        file,
        start: 0,
        end: 0,
    };
    let format = DataFormat::of(path).unwrap_or(DataFormat::Unsupported);
    let rows = loader.read_rows(format, path, named_at, RowKind::Answer);
    let rows = rows.map_or_else(Vec::new, |(_, rows)| rows);
    if rows.is_empty() && !loader.findings.has_errors() {
        let message = format!("`{}` has no answer", path.display());
        let diagnostic = Diagnostic::error(Code::EmptyFile, message);
        loader.findings.add(&loader.tree, named_at, diagnostic);
    }
    let mut answers = Vec::with_capacity(rows.len());
    for (place, row) in rows.into_iter().enumerate() {
        answers.push(loader.answer_row(place + 1, row));
    }
    if loader.findings.has_errors() {
        answers.clear();
    }
    for diagnostic in &mut loader.findings.diagnostics {
        diagnostic.pointer = Some("target.file".to_owned());
        diagnostic.primary = diagnostic
            .primary
            .take()
            .filter(|primary| !primary.path.as_os_str().is_empty());
    }
    (answers, loader.finish(None))
}

impl Loader<'_> {
    fn answer_row(&mut self, number: usize, row: NodeId) -> AnswerRow {
        let at = self.tree.place(row);
        let mut found = AnswerRow {
            number,
            ..AnswerRow::default()
        };
        let mut texts: Vec<String> = Vec::new();
        for entry in self.tree.entries(row).unwrap_or_default().to_vec() {
            let key = self.tree.key(&entry).to_owned();
            let Ok(value) = from_tree::<Value>(&self.tree, entry.value) else {
                continue;
            };
            let is_absent = value.is_null();
            match key.as_str() {
                "name" => found.name = value.as_str().map(|name| name.trim().to_owned()),
                "input" => found.input = value.as_str().map(str::to_owned),
                "latency_ms" if !is_absent => {
                    found.latency_ms = value.as_u64();
                    if found.latency_ms.is_none() {
                        let message = "`latency_ms` must be a whole number of milliseconds";
                        self.report_row(entry.value, Code::WrongType, message.to_owned(), None);
                    }
                }
                key if AnswerRow::TEXTS.contains(&key) && !is_absent => {
                    texts.push(key.to_owned());
                    found.answer.insert("text".to_owned(), value);
                }
                key if AnswerRow::COLUMNS.contains(&key) => {
                    if !is_absent {
                        found.answer.insert(key.to_owned(), value);
                    }
                }
                key if is_case_field(key) => {}
                key => {
                    let columns: Vec<String> = AnswerRow::COLUMNS
                        .iter()
                        .map(|name| format!("`{name}`"))
                        .collect();
                    let help = format!(
                        "the columns of answers are `name`, `input` and {}; those of a test case may stand beside them",
                        columns.join(", ")
                    );
                    self.report_row(
                        entry.value,
                        Code::UnknownField,
                        format!("unknown column `{key}`"),
                        Some(help),
                    );
                }
            }
        }
        if let [first, second, ..] = texts.as_slice() {
            let message = format!("this row has two texts, `{first}` and `{second}`");
            self.report_answer(
                at,
                Code::ConflictingFields,
                message,
                Some("keep one of them".to_owned()),
            );
        }
        if found.name.is_none() && found.input.is_none() {
            let message = "this row has neither `name` nor `input`".to_owned();
            let help = "it answers the case of that name, or the one with that input".to_owned();
            self.report_answer(at, Code::MissingField, message, Some(help));
        }
        found
    }

    fn report_row(&mut self, node: NodeId, code: Code, message: String, help: Option<String>) {
        let at = self.tree.place(node);
        self.report_answer(at, code, message, help);
    }

    fn report_answer(&mut self, at: Place, code: Code, message: String, help: Option<String>) {
        let mut diagnostic = Diagnostic::error(code, message);
        diagnostic.help = help;
        self.findings.add(&self.tree, at, diagnostic);
    }
}
