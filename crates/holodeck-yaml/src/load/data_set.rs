//! Data sets of test cases: `test_cases_file` as CSV, JSON Lines or a workbook. Labelled answers are read alike.
//!
//! The rows become nodes of the tree, so that the checks of test cases in YAML apply to them unchanged. No row is
//! skipped: what cannot be read is an error at its cell. `${VAR}` is not replaced: a data set is data.

mod answers;
mod csv;
mod json_node;
mod labels;
mod package;
mod plain;
mod routing;
mod table;
mod workbook;

use std::path::Path;

use holodeck_model::{Code, Diagnostic, lines_with_ends};

pub(crate) use self::routing::routing_schema;
pub use self::{answers::load_answers, labels::load_labels, routing::load_routing_cases};
pub(crate) use self::{csv::CsvRows, workbook::read_foreign_sheet};
use self::{
    json_node::read_json,
    plain::plain_line,
    table::{RowKind, Table},
};
use super::Loader;
use crate::yaml::{FileId, NodeId, Place};

/// The format of a data set, by the extension of its file.
#[derive(Clone, Copy, Debug)]
pub(super) enum DataFormat {
    Csv,
    JsonLines,
    Workbook,
    /// A format of tables that is not supported.
    Unsupported,
}

impl DataFormat {
    /// The format of a file that is not YAML.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "xlsx" => Some(Self::Workbook),
            "tsv" | "xls" | "xlsb" | "xlsm" | "ods" | "parquet" => Some(Self::Unsupported),
            _ => None,
        }
    }
}

/// Bytes of `{"input":"a"}`.
const SHORTEST_LINE: usize = 13;

impl Loader<'_> {
    /// The test cases of a data set as a list; absent if its form is wrong, which is then reported.
    pub(super) fn read_data_set(
        &mut self,
        format: DataFormat,
        path: &Path,
        named_at: Place,
    ) -> Option<NodeId> {
        let reported = self.findings.diagnostics.len();
        let (file, cases) = self.read_rows(format, path, named_at, RowKind::TestCase)?;
        let place = Place {
            file,
            start: 0,
            end: 0,
        };
        if cases.is_empty() && self.findings.diagnostics.len() == reported {
            let message = format!("`{}` has no test case", path.display());
            let diagnostic = Diagnostic::warning(Code::EmptyFile, message)
                .about("test_cases_file")
                .with_help(match format {
                    DataFormat::JsonLines => "write one JSON object in each line, as `{\"input\": \"…\"}`",
                    _ => "write one case in each row below the names of the columns",
                });
            self.findings.add(&self.tree, place, diagnostic);
        }
        let list = self.tree.seq_node(place, &cases);
        self.tree.add_root(list);
        Some(list)
    }

    fn read_rows(
        &mut self,
        format: DataFormat,
        path: &Path,
        named_at: Place,
        kind: RowKind,
    ) -> Option<(FileId, Vec<NodeId>)> {
        match format {
            DataFormat::Csv => self.read_csv(path, named_at, kind),
            DataFormat::JsonLines => self.read_json_lines(path, named_at, kind),
            DataFormat::Workbook => self.read_workbook(path, named_at, kind),
            DataFormat::Unsupported => {
                let message = format!("`{}` has a format that is not supported", path.display());
                let diagnostic = Diagnostic::error(Code::BadFormat, message)
                    .about("test_cases_file")
                    .with_help("use YAML, `.csv`, `.jsonl` or `.xlsx`");
                self.findings.add(&self.tree, named_at, diagnostic);
                None
            }
        }
    }

    fn read_csv(&mut self, path: &Path, named_at: Place, kind: RowKind) -> Option<(FileId, Vec<NodeId>)> {
        let file = self.read_data_text(path, named_at)?;
        let text = self.tree.file_text(file);
        let mut rows = CsvRows::new(&text);
        let mut table = Table::new(file, true, kind);
        while let Some(row) = rows.next_row() {
            let is_misquoted = !row.misquoted.is_empty();
            for at in row.misquoted {
                let message = "a quoted cell must begin and end with `\"`";
                let help = "close the quote, and write a `\"` within a quoted cell twice";
                let diagnostic = Diagnostic::error(Code::BadFormat, message)
                    .about("test_cases_file")
                    .with_help(help);
                self.report_data(file, at, at + 1, diagnostic);
            }
            // Where its cells end is not known.
            if !(is_misquoted && table.has_header()) {
                table.add_row(self, row.cells)?;
            }
        }
        Some((file, table.finish(self)?))
    }

    fn read_json_lines(
        &mut self,
        path: &Path,
        named_at: Place,
        kind: RowKind,
    ) -> Option<(FileId, Vec<NodeId>)> {
        let file = self.read_data_text(path, named_at)?;
        let text = self.tree.file_text(file);
        // A file of empty lines has no rows.
        let lines = text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
        let lines = lines.min(text.len() / SHORTEST_LINE + 1);
        if kind == RowKind::TestCase {
            self.tree.reserve_rows(lines);
        }
        let mut cases = Vec::with_capacity(lines);
        let mut at = 0;
        for line in lines_with_ends(&text) {
            let start = at;
            at += line.len();
            let content = line.trim_end();
            if content.is_empty() {
                continue;
            }
            let place = Place {
                file,
                start: offset(start),
                end: offset(start + content.len()),
            };
            if kind == RowKind::TestCase
                && let Some(row) = plain_line(start, content)
            {
                cases.push(self.tree.row_node(place, row));
                continue;
            }
            match read_json(&mut self.tree, content, place) {
                Ok(node) if self.tree.entries(node).is_some() => cases.push(node),
                Ok(_) => {
                    let diagnostic = Diagnostic::error(Code::WrongType, "each line must be an object");
                    self.report_data(file, place.start, place.end, diagnostic.about("test_cases_file"));
                }
                Err(error) => {
                    let column = offset(error.column.saturating_sub(1).min(content.len()));
                    let diagnostic = Diagnostic::error(Code::BadJson, format!("not JSON: {}", error.message))
                        .about("test_cases_file")
                        .with_help("each line must be one complete JSON object");
                    self.report_data(file, place.start + column, place.end, diagnostic);
                }
            }
        }
        Some((file, cases))
    }

    /// Reports a problem of a range of bytes of a data set.
    fn report_data(&mut self, file: FileId, start: u32, end: u32, diagnostic: Diagnostic) {
        let end = end.max(start);
        self.findings
            .add(&self.tree, Place { file, start, end }, diagnostic);
    }
}

/// Offsets in a file fit in 32 bits, because its size is limited.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
