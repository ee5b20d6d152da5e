//! The first sheet of a workbook.
//!
//! Its rows become a text with one line per row, so that the line of a diagnostic is the row of the sheet.

use std::{io::Cursor, path::Path};

use calamine::{DataRef, Reader as _, SheetType, Xlsx, XlsxError, open_workbook_from_rs};
use holodeck_model::{Code, Diagnostic, Layer, Source};

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
        let (sheet, name, others) = match read_first_sheet(&bytes) {
            Ok(read) => read,
            Err(reason) => {
                let message = format!("`{}` cannot be read as a workbook: {reason}", path.display());
                let diagnostic = Diagnostic::error(Code::UnreadableFile, message).about("test_cases_file");
                self.findings.add(&self.tree, named_at, diagnostic);
                return None;
            }
        };
        if others > 0 {
            let message = format!("only the first sheet, `{name}`, of {} is read", others + 1);
            let diagnostic = Diagnostic::warning(Code::NoEffect, message).about("test_cases_file");
            self.findings.add(&self.tree, named_at, diagnostic);
        }
        let source = Source {
            path: path.into(),
            text: sheet.text.into(),
        };
        let file = SourceFile::new(source, Layer::Agent).based_at(self.files);
        let file = self.tree.add_file(file);
        for (start, end, reason) in sheet.unusable {
            let diagnostic = Diagnostic::error(Code::BadFormat, reason)
                .about("test_cases_file")
                .with_help("write the value as text");
            self.report_data(file, start, end, diagnostic);
        }
        let mut table = Table::new(file, false, kind);
        for cells in sheet.rows {
            table.add_row(self, cells)?;
        }
        Some((file, table.finish(self)?))
    }
}

/// The first sheet, its name, and the number of other sheets.
fn read_first_sheet(bytes: &[u8]) -> Result<(Sheet, String, usize), String> {
    package::check(bytes)?;
    let mut book: Xlsx<Cursor<&[u8]>> =
        open_workbook_from_rs(Cursor::new(bytes)).map_err(|error: XlsxError| error.to_string())?;
    let names: Vec<String> = book
        .sheets_metadata()
        .iter()
        .filter(|sheet| sheet.typ == SheetType::WorkSheet)
        .map(|sheet| sheet.name.clone())
        .collect();
    let name = names.first().cloned().ok_or("it has no sheet")?;
    let mut reader = book
        .worksheet_cells_reader(&name)
        .map_err(|error| error.to_string())?;
    let mut sheet = Sheet::default();
    let (mut line, mut row) = (0, Vec::new());
    while let Some(cell) = reader
        .next_cell_with_formula()
        .map_err(|error| error.to_string())?
    {
        let (at, column) = cell.pos;
        if at < line || at >= MAX_ROWS {
            return Err(format!("row {} is out of order", u64::from(at) + 1));
        }
        if at > line {
            sheet.end_row(&mut row);
            while line < at {
                sheet.text.push('\n');
                line += 1;
            }
        }
        let value = match (cell.value, cell.formula) {
            (DataRef::Empty, Some(_)) => Err("a formula that was never calculated".to_owned()),
            (value, _) => value_text(&value),
        };
        if matches!(&value, Ok(text) if text.is_empty()) {
            continue;
        }
        sheet.cells += (column as usize + 1).saturating_sub(row.len());
        if sheet.cells > MAX_CELLS {
            return Err(format!("its first sheet has more than {MAX_CELLS} cells"));
        }
        // Cells that the sheet leaves out are empty.
        while row.len() < column as usize {
            sheet.add_cell(&mut row, "");
        }
        match value {
            Ok(text) => sheet.add_cell(&mut row, &text),
            Err(reason) => {
                let start = offset(sheet.text.len());
                sheet.add_cell(&mut row, "?");
                let end = offset(sheet.text.len());
                sheet
                    .unusable
                    .push((start, end, format!("this cell is {reason}")));
            }
        }
        if sheet.text.len() as u64 > MAX_DATA_BYTES {
            return Err("its first sheet is too large".to_owned());
        }
    }
    sheet.end_row(&mut row);
    let others = names.len() - 1;
    Ok((sheet, name, others))
}

impl Sheet {
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

    /// A row without any value is no row.
    fn end_row(&mut self, row: &mut Vec<Cell>) {
        if !row.is_empty() {
            self.rows.push(std::mem::take(row));
        }
    }
}

fn value_text(value: &DataRef<'_>) -> Result<String, String> {
    match value {
        DataRef::Empty => Ok(String::new()),
        DataRef::String(text) => Ok(text.clone()),
        DataRef::SharedString(text) => Ok((*text).to_owned()),
        DataRef::Int(number) => Ok(number.to_string()),
        // Spreadsheets show fifteen digits.
        DataRef::Float(number) => Ok(format!("{number:.14e}")
            .parse::<f64>()
            .unwrap_or(*number)
            .to_string()),
        DataRef::Bool(value) => Ok(value.to_string()),
        DataRef::Error(error) => Err(format!("an error, {error}")),
        DataRef::DateTime(_) | DataRef::DateTimeIso(_) | DataRef::DurationIso(_) => {
            Err("a date or a time, whose text depends on its format".to_owned())
        }
    }
}
