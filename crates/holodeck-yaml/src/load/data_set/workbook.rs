//! The first sheet of a workbook.
//!
//! Its rows become a text with one line per row, so that the line of a diagnostic is the row of the sheet.

use std::{io::Cursor, path::Path};

use calamine::{
    DataRef, Dimensions, Reader as _, SheetType, SheetVisible, Xlsx, XlsxError, open_workbook_from_rs,
};
use holodeck_model::{Code, Diagnostic, Layer, Source};
use holodeck_sheets::{CellFormats, HiddenLines, cell_formats};

use super::{
    super::{Loader, read::MAX_DATA_BYTES},
    offset, package,
    table::{Cell, RowKind, Table},
};
use crate::yaml::{FileId, NodeId, Place, SourceFile};

/// Maximum size of a workbook, which is compressed.
const MAX_WORKBOOK_BYTES: u64 = 50 * 1024 * 1024;

/// Rows of the largest sheet that Excel writes.
const MAX_ROWS: u32 = 1_048_576;

/// Eight columns in each row of the largest sheet. A sheet with one cell at the end of each row would take much more
/// memory than its file.
const MAX_CELLS: usize = 8 * 1_048_576;

/// The text of a sheet, and its cells by row.
#[derive(Default)]
struct Sheet {
    text: String,
    rows: Vec<Vec<Cell>>,
    cells: usize,
    /// Cells without a usable value, with the reason.
    unusable: Vec<(u32, u32, String)>,
}

impl Loader<'_> {
    pub(super) fn read_workbook(
        &mut self,
        path: &Path,
        named_at: Place,
        kind: RowKind,
    ) -> Option<(FileId, Vec<NodeId>)> {
        let bytes = self.read_bytes(path, Some(named_at), MAX_WORKBOOK_BYTES)?;
        let first = match read_first_sheet(&bytes) {
            Ok(read) => read,
            Err(reason) => {
                let message = format!("`{}` cannot be read as a workbook: {reason}", path.display());
                let diagnostic = Diagnostic::error(Code::UnreadableFile, message).about("test_cases_file");
                self.findings.add(&self.tree, named_at, diagnostic);
                return None;
            }
        };
        let name = &first.name;
        if first.others > 0 {
            let message = format!("only the first sheet, `{name}`, of {} is read", first.others + 1);
            let diagnostic = Diagnostic::warning(Code::NoEffect, message).about("test_cases_file");
            self.findings.add(&self.tree, named_at, diagnostic);
        }
        if first.is_hidden {
            let message = format!("the first sheet, `{name}`, is hidden, and its rows are the test cases");
            let diagnostic = Diagnostic::warning(Code::HiddenSheet, message)
                .about("test_cases_file")
                .with_help("show the sheet, or move the sheet with the test cases to the front");
            self.findings.add(&self.tree, named_at, diagnostic);
        }
        let hidden = match first.hidden {
            Ok(lines) => lines.map(|lines| {
                format!("the first sheet, `{name}`, hides {lines}, and what stands there is read")
            }),
            Err(reason) => Some(format!(
                "which rows and columns of the first sheet, `{name}`, are hidden is unknown: {reason}"
            )),
        };
        if let Some(message) = hidden {
            let diagnostic = Diagnostic::warning(Code::HiddenSheet, message)
                .about("test_cases_file")
                .with_help("show them and clear the filter, or delete what is not meant to be read");
            self.findings.add(&self.tree, named_at, diagnostic);
        }
        let source = Source {
            path: path.into(),
            text: first.sheet.text.into(),
        };
        let file = SourceFile::new(source, Layer::Agent).based_at(self.files);
        let file = self.tree.add_file(file);
        for (start, end, reason) in first.sheet.unusable {
            let diagnostic = Diagnostic::error(Code::BadFormat, reason)
                .about("test_cases_file")
                .with_help("write the value as text: with `'` before it, or in a cell whose format is Text");
            self.report_data(file, start, end, diagnostic);
        }
        let mut table = Table::new(file, false, kind);
        for cells in first.sheet.rows {
            table.add_row(self, cells)?;
        }
        Some((file, table.finish(self)?))
    }
}

/// A sheet of another tool: its rows with the numbers of their lines, and what of the workbook is not in them.
pub(crate) struct ForeignSheet {
    pub(crate) rows: Vec<(usize, Vec<String>)>,
    pub(crate) notes: Vec<String>,
}

/// Reads the first sheet of a workbook as texts. A cell whose text is unknown is an error with its row.
pub(crate) fn read_foreign_sheet(bytes: &[u8]) -> Result<ForeignSheet, (Option<usize>, String)> {
    if bytes.len() as u64 > MAX_WORKBOOK_BYTES {
        return Err((None, "it is too large".to_owned()));
    }
    let first = read_first_sheet(bytes).map_err(|reason| (None, reason))?;
    let text = &first.sheet.text;
    let line_of = |at: u32| {
        let before = text.get(..at as usize).unwrap_or_default();
        1 + before.matches('\n').count()
    };
    if let Some((at, _, reason)) = first.sheet.unusable.first() {
        return Err((Some(line_of(*at)), reason.clone()));
    }
    let rows = first.sheet.rows.iter().map(|cells| {
        let line = cells.first().map_or(1, |cell| line_of(cell.start));
        (
            line,
            cells.iter().map(|cell| cell.text(text).to_owned()).collect(),
        )
    });
    let name = &first.name;
    let mut notes = Vec::new();
    if first.others > 0 {
        notes.push(format!("sheets after the first, `{name}`: {}", first.others));
    }
    if first.is_hidden {
        notes.push(format!("that the sheet `{name}` is hidden"));
    }
    match &first.hidden {
        Ok(Some(lines)) => notes.push(format!("that the sheet `{name}` hides {lines}")),
        Ok(None) => {}
        Err(reason) => notes.push(format!("which rows of `{name}` are hidden: {reason}")),
    }
    Ok(ForeignSheet {
        rows: rows.collect(),
        notes,
    })
}

/// The first sheet of a workbook.
struct FirstSheet {
    sheet: Sheet,
    name: String,
    is_hidden: bool,
    /// The hidden rows and columns that were read, or why they are unknown.
    hidden: Result<Option<String>, String>,
    /// The number of other sheets.
    others: usize,
}

fn too_many_cells() -> String {
    format!("its first sheet has more than {MAX_CELLS} cells")
}

fn text_of(error: &XlsxError) -> String {
    error.to_string()
}

fn read_first_sheet(bytes: &[u8]) -> Result<FirstSheet, String> {
    package::check(bytes)?;
    let mut book: Xlsx<Cursor<&[u8]>> =
        open_workbook_from_rs(Cursor::new(bytes)).map_err(|error| text_of(&error))?;
    let mut sheets = book
        .sheets_metadata()
        .iter()
        .filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let first = sheets.next().ok_or("it has no sheet")?;
    let (name, is_hidden) = (first.name.clone(), first.visible != SheetVisible::Visible);
    let others = sheets.count();
    let formats = cell_formats(&mut book, &name, MAX_CELLS).map_err(|error| text_of(&error))?;
    let formats = formats.ok_or_else(too_many_cells)?;
    let mut hidden = HiddenLines::read(bytes, &name);
    let regions = book.merge_cells_by_sheet_name(&name);
    let mut merges = Merges::new(regions.map_err(|error| text_of(&error))?);
    let mut reader = book
        .worksheet_cells_reader(&name)
        .map_err(|error| text_of(&error))?;
    let mut sheet = Sheet::default();
    let (mut line, mut row) = (0, Vec::new());
    while let Some(cell) = reader.next_cell_with_formula().map_err(|error| text_of(&error))? {
        let (at, column) = cell.pos;
        if at < line || at >= MAX_ROWS {
            return Err(format!("row {} is out of order", u64::from(at) + 1));
        }
        if at > line {
            sheet.add_row(line, std::mem::take(&mut row), &mut merges)?;
            while line < at {
                sheet.text.push('\n');
                line += 1;
            }
        }
        let value = match (cell.value, cell.formula) {
            (DataRef::Empty, Some(_)) => Err("a formula that was never calculated".to_owned()),
            (value, _) => value_text(&value, cell.pos, &formats),
        };
        if !matches!(&value, Ok(text) if text.is_empty()) {
            if let Ok(hidden) = &mut hidden {
                hidden.see(at, column);
            }
            row.push((column, value));
        }
    }
    sheet.add_row(line, row, &mut merges)?;
    Ok(FirstSheet {
        sheet,
        name,
        is_hidden,
        hidden: hidden.map(|hidden| hidden.seen()),
        others,
    })
}

impl Sheet {
    /// A row without any value of its own is no row.
    fn add_row(&mut self, line: u32, mut cells: Vec<Value>, merges: &mut Merges) -> Result<(), String> {
        merges.fill(line, self.rows.is_empty(), &mut cells);
        if cells.is_empty() {
            return Ok(());
        }
        let mut row: Vec<Cell> = Vec::new();
        for (column, value) in cells {
            let column = column as usize;
            self.cells += (column + 1).saturating_sub(row.len());
            if self.cells > MAX_CELLS {
                return Err(too_many_cells());
            }
            // Cells that the sheet leaves out are empty.
            while row.len() < column {
                self.add_cell(&mut row, "");
            }
            match value {
                Ok(text) => self.add_cell(&mut row, &text),
                Err(reason) => {
                    let start = offset(self.text.len());
                    self.add_cell(&mut row, "?");
                    let end = offset(self.text.len());
                    self.unusable.push((start, end, format!("this cell is {reason}")));
                }
            }
            if self.text.len() as u64 > MAX_DATA_BYTES {
                return Err("its first sheet is too large".to_owned());
            }
        }
        self.rows.push(row);
        Ok(())
    }

    fn add_cell(&mut self, row: &mut Vec<Cell>, text: &str) {
        if !row.is_empty() {
            self.text.push('\t');
        }
        let start = offset(self.text.len());
        let several = text.contains(['\n', '\r']);
        if several {
            self.text.push_str(&text.replace(['\n', '\r'], " "));
        } else {
            self.text.push_str(text);
        }
        row.push(Cell {
            start,
            end: offset(self.text.len()),
            owned: several.then(|| text.into()),
        });
    }
}

/// A column and its text in a row, or why that is unknown.
type Value = (u32, Result<String, String>);

/// The merged cells of a sheet, by row.
struct Merges {
    /// Those that begin in a later row; the next one is last.
    later: Vec<Dimensions>,
    /// Those of this row, with the value that was read for the first cell of them.
    open: Vec<(Dimensions, Option<Result<String, String>>)>,
}

impl Merges {
    fn new(mut later: Vec<Dimensions>) -> Self {
        later.sort_by_key(|region| std::cmp::Reverse(region.start));
        Self {
            later,
            open: Vec::new(),
        }
    }

    /// Completes the cells of a row: the value of cells that are merged with those of rows above stands in each of these
    /// rows, as the sheet shows it. A merge that leaves it open to which column a value belongs makes the cell unusable.
    fn fill(&mut self, line: u32, is_header: bool, cells: &mut Vec<Value>) {
        while let Some(next) = self.later.pop_if(|next| next.start.0 <= line) {
            self.open.push((next, None));
        }
        self.open.retain(|(region, _)| region.end.0 >= line);
        if cells.is_empty() {
            return;
        }
        for (region, value) in &mut self.open {
            let (first, last) = (region.start.1, region.end.1);
            let begins = region.start.0 == line;
            for (column, own) in cells
                .iter_mut()
                .filter(|(column, _)| (first..=last).contains(column))
            {
                if !begins || *column != first {
                    *own = Err(
                        "a part of merged cells and has a value of its own, which is not shown".to_owned(),
                    );
                } else if first < last && !is_header {
                    *own = Err("merged with cells of other columns".to_owned());
                } else if region.end.0 > line && is_header {
                    *own =
                        Err("merged with cells of other rows, and the first row names the fields".to_owned());
                } else {
                    *value = Some(own.clone());
                }
            }
            let is_filled = cells.iter().any(|(column, _)| *column == first);
            if let Some(value) = value.as_ref().filter(|_| !begins && !is_filled) {
                cells.push((first, value.clone()));
            }
        }
        cells.sort_by_key(|(column, _)| *column);
    }
}

/// The text that the sheet shows for a value, or why it is unknown.
fn value_text(value: &DataRef<'_>, position: (u32, u32), formats: &CellFormats) -> Result<String, String> {
    let shown = match value {
        DataRef::Empty => Ok(String::new()),
        DataRef::String(value) => formats.text(position, value),
        DataRef::SharedString(value) => formats.text(position, value),
        #[expect(clippy::cast_precision_loss, reason = "sheets have fifteen digits")]
        DataRef::Int(value) => formats.number(position, *value as f64),
        DataRef::Float(value) => formats.number(position, *value),
        DataRef::Bool(value) => Ok(if *value { "TRUE" } else { "FALSE" }.to_owned()),
        DataRef::Error(error) => return Err(format!("an error, {error}")),
        DataRef::DateTime(_) | DataRef::DateTimeIso(_) | DataRef::DurationIso(_) => {
            return Err("a date or a time, whose text depends on its format".to_owned());
        }
    };
    shown.map_err(|error| error.to_string())
}
