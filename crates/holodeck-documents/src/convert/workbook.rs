//! Workbooks: each sheet as a table of its last calculated values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Cursor,
};

use calamine::{
    Data, DataRef, ExcelDateTime, Ods, Reader, SheetType, SheetVisible, Xls, Xlsx, XlsxError,
    open_workbook_from_rs,
};
use holodeck_sheets::{HiddenLines, cell_formats, letters, plain_number};

use crate::{ConvertOptions, Document, Format, Limit, Mark, Place, Problem, options::CellRange};

use super::{package, table};

/// More cells than this are not readable text.
const MOST_CELLS: usize = 1_000_000;

/// Eight formatted cells, which may be empty, in each row of the largest sheet that Excel writes.
const MOST_FORMATTED: usize = 8 * 1_048_576;

type Bytes<'a> = Cursor<&'a [u8]>;

/// The values of a sheet by row and column; most of a sheet is empty.
#[derive(Default)]
struct Cells {
    rows: BTreeMap<u32, BTreeMap<u32, String>>,
    count: usize,
    /// Formulas without a calculated value.
    uncalculated: usize,
    /// Numbers that are shown without their format.
    unformatted: usize,
    /// The first of them, with the reason.
    first_unformatted: Option<String>,
    /// Whether there are numbers whose formats are unknown.
    plain_numbers: bool,
    /// The rows and columns that the sheet hides, where the format of the file is read for them.
    hidden: Option<Result<HiddenLines, String>>,
}

pub(super) fn convert(bytes: &[u8], format: Format, options: &ConvertOptions) -> Result<Document, Problem> {
    if format != Format::Xls {
        package::check(bytes, format)?;
    }
    let range = options.range.as_deref().map(CellRange::parse).transpose()?;
    let content = bytes;
    let bytes = Cursor::new(bytes);
    match format {
        Format::Xls => {
            let book: Xls<Bytes<'_>> =
                open_workbook_from_rs(bytes).map_err(|error| broken(format, &error))?;
            all(book, content, format, options, range, whole)
        }
        Format::Ods => {
            let book: Ods<Bytes<'_>> =
                open_workbook_from_rs(bytes).map_err(|error| broken(format, &error))?;
            all(book, content, format, options, range, whole)
        }
        _ => {
            let book: Xlsx<Bytes<'_>> =
                open_workbook_from_rs(bytes).map_err(|error| broken(format, &error))?;
            all(book, content, format, options, range, by_cell)
        }
    }
}

type ReadSheet<B> = fn(&mut B, &str, &mut Cells, Option<CellRange>, Format) -> Result<(), Problem>;

fn all<'a, B: Reader<Bytes<'a>>>(
    mut book: B,
    content: &[u8],
    format: Format,
    options: &ConvertOptions,
    range: Option<CellRange>,
    read: ReadSheet<B>,
) -> Result<Document, Problem> {
    let sheets = book.sheets_metadata().to_vec();
    let sheets: Vec<_> = sheets
        .into_iter()
        .filter(|sheet| sheet.typ == SheetType::WorkSheet)
        .collect();
    let mut document = Document::default();
    let (mut hidden, mut hidden_lines) = (Vec::new(), Vec::new());
    let (mut found, mut uncalculated, mut unformatted) = (false, 0, 0);
    let (mut first_unformatted, mut plain_numbers) = (None, false);
    for sheet in &sheets {
        if options.sheet.as_ref().is_some_and(|wanted| *wanted != sheet.name) {
            continue;
        }
        found = true;
        if sheet.visible != SheetVisible::Visible {
            hidden.push(format!("`{}`", sheet.name));
        }
        let mut cells = Cells {
            hidden: match format {
                Format::Xlsx => Some(HiddenLines::read(content, &sheet.name)),
                Format::Ods => Some(HiddenLines::read_open_document(content, &sheet.name)),
                _ => None,
            },
            ..Cells::default()
        };
        read(&mut book, &sheet.name, &mut cells, range, format)?;
        uncalculated += cells.uncalculated;
        unformatted += cells.unformatted;
        plain_numbers |= cells.plain_numbers;
        first_unformatted = first_unformatted
            .or_else(|| Some(format!("`{}`, {}", sheet.name, cells.first_unformatted.take()?)));
        match &cells.hidden {
            Some(Ok(lines)) => {
                hidden_lines.extend(lines.seen().map(|lines| format!("{lines} of `{}`", sheet.name)));
            }
            Some(Err(reason)) => document.notes.push(format!(
                "which rows and columns of `{}` are hidden is unknown: {reason}",
                sheet.name
            )),
            None => {}
        }
        write(&mut document, &sheet.name, &cells);
    }
    if let Some(sheet) = options.sheet.clone().filter(|_| !found) {
        let sheets = sheets.into_iter().map(|sheet| sheet.name).collect();
        return Err(Problem::NoSheet { sheet, sheets });
    }
    if uncalculated > 0 {
        document.notes.push(format!(
            "formulas that were never calculated are shown as they are: {uncalculated}"
        ));
    }
    if let Some(first) = first_unformatted {
        document.notes.push(format!(
            "cells that are shown without their format: {unformatted}; the first is {first}"
        ));
    }
    if plain_numbers {
        let note =
            "numbers are shown without their formats, such as 0.15 for 15%; an `.xlsx` file keeps them";
        document.notes.push(note.to_owned());
    }
    if !hidden.is_empty() {
        document
            .notes
            .push(format!("hidden sheets are among them: {}", hidden.join(", ")));
    }
    if !hidden_lines.is_empty() {
        document.notes.push(format!(
            "hidden rows and columns are among them: {}",
            hidden_lines.join("; ")
        ));
    }
    Ok(document)
}

/// Reads cell by cell, so that a sheet with one cell in each corner stays small.
fn by_cell(
    book: &mut Xlsx<Bytes<'_>>,
    sheet: &str,
    cells: &mut Cells,
    range: Option<CellRange>,
    format: Format,
) -> Result<(), Problem> {
    let broken = |error: XlsxError| broken(format, &error);
    let formats = cell_formats(book, sheet, MOST_FORMATTED).map_err(broken)?;
    let formats = formats.ok_or(Limit::Cells(MOST_FORMATTED as u64))?;
    let mut reader = book.worksheet_cells_reader(sheet).map_err(broken)?;
    while let Some(cell) = reader.next_cell_with_formula().map_err(broken)? {
        let (row, column) = cell.pos;
        let value = match (cell.value, cell.formula) {
            // Programs other than Excel often leave formulas uncalculated.
            (DataRef::Empty, Some(formula)) => {
                cells.uncalculated += usize::from(range.is_none_or(|range| range.has(row, column)));
                format!("={formula}")
            }
            (value, _) => {
                let value = Data::from(value);
                let shown = match &value {
                    #[expect(clippy::cast_precision_loss, reason = "sheets have fifteen digits")]
                    Data::Int(value) => formats.number(cell.pos, *value as f64),
                    Data::Float(value) => formats.number(cell.pos, *value),
                    Data::String(text) => formats.text(cell.pos, text),
                    other => Ok(render_value(other)),
                };
                shown.unwrap_or_else(|reason| {
                    if range.is_none_or(|range| range.has(row, column)) {
                        cells.note_unformatted(row, column, &reason.to_string());
                    }
                    render_value(&value)
                })
            }
        };
        cells.add(row, column, value, range)?;
    }
    Ok(())
}

fn whole<'a, B: Reader<Bytes<'a>>>(
    book: &mut B,
    sheet: &str,
    cells: &mut Cells,
    range: Option<CellRange>,
    format: Format,
) -> Result<(), Problem> {
    let values = book.worksheet_range(sheet).map_err(|error| Problem::Broken {
        format,
        reason: format!("{error:?}"),
    })?;
    let Some((first_row, first_column)) = values.start() else {
        return Ok(());
    };
    for (row, column, value) in values.used_cells() {
        let at = |first: u32, offset: usize| first.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX));
        let (row, column) = (at(first_row, row), at(first_column, column));
        // The reader does not give the formats of these files.
        cells.plain_numbers |= matches!(value, Data::Int(_) | Data::Float(_))
            && range.is_none_or(|range| range.has(row, column));
        cells.add(row, column, render_value(value), range)?;
    }
    Ok(())
}

impl Cells {
    fn note_unformatted(&mut self, row: u32, column: u32, reason: &str) {
        self.unformatted += 1;
        let place = || format!("{}{}, {reason}", letters(column), u64::from(row) + 1);
        self.first_unformatted.get_or_insert_with(place);
    }

    fn add(&mut self, row: u32, column: u32, value: String, range: Option<CellRange>) -> Result<(), Problem> {
        if value.is_empty() || !range.is_none_or(|range| range.has(row, column)) {
            return Ok(());
        }
        if let Some(Ok(hidden)) = &mut self.hidden {
            hidden.see(row, column);
        }
        self.count += 1;
        if self.count > MOST_CELLS {
            return Err(Limit::Cells(MOST_CELLS as u64).into());
        }
        self.rows.entry(row).or_default().insert(column, value);
        Ok(())
    }
}

/// Writes a sheet under its name. Empty rows end a table; empty columns are left out.
fn write(document: &mut Document, name: &str, cells: &Cells) {
    if !document.text.is_empty() {
        document.text.push('\n');
    }
    document.marks.push(Mark {
        at: document.text.len(),
        place: Place::Sheet(name.to_owned()),
    });
    let _ = writeln!(document.text, "## {}", super::blocks::one_line(name));
    let mut rows: Vec<&BTreeMap<u32, String>> = Vec::new();
    let mut previous = None;
    for (row, values) in &cells.rows {
        if previous.is_some_and(|previous: u32| previous.saturating_add(1) != *row) {
            write_table(&mut document.text, &std::mem::take(&mut rows));
        }
        rows.push(values);
        previous = Some(*row);
    }
    write_table(&mut document.text, &rows);
}

fn write_table(out: &mut String, rows: &[&BTreeMap<u32, String>]) {
    let columns: BTreeSet<u32> = rows.iter().flat_map(|row| row.keys()).copied().collect();
    out.push('\n');
    // A single line of text is not a table.
    if let ([row], 1) = (rows, columns.len()) {
        for value in row.values() {
            out.push_str(&super::blocks::one_line(value));
            out.push('\n');
        }
        return;
    }
    let value = |row: &BTreeMap<u32, String>, column: &u32| row.get(column).cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| value(row, column)).collect())
        .collect();
    table::write(out, &rows);
}

fn render_value(value: &Data) -> String {
    match value {
        Data::Float(number) => plain_number(*number),
        Data::Bool(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        Data::DateTime(time) => date(time),
        Data::DateTimeIso(text) | Data::DurationIso(text) | Data::String(text) => text.clone(),
        Data::Empty => String::new(),
        other => other.to_string(),
    }
}

fn date(time: &ExcelDateTime) -> String {
    if time.is_duration() {
        let seconds = (time.as_f64() * 86_400.0).round();
        let (hours, rest) = ((seconds / 3600.0).trunc(), seconds.abs() % 3600.0);
        return format!("{hours}:{:02}:{:02}", (rest / 60.0).trunc(), rest % 60.0);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    if time.as_f64() < 1.0 {
        clock
    } else if (hour, minute, second) == (0, 0, 0) {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02} {clock}")
    }
}

fn broken(format: Format, error: &impl std::fmt::Display) -> Problem {
    let reason = error.to_string();
    if reason.to_ascii_lowercase().contains("password") {
        return Problem::Encrypted;
    }
    Problem::Broken { format, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted() {
        let mut cells = Cells {
            count: MOST_CELLS - 1,
            ..Cells::default()
        };
        cells.add(0, 0, String::new(), None).unwrap();
        cells.add(0, 1, "last".to_owned(), None).unwrap();
        let problem = cells.add(0, 2, "more".to_owned(), None).unwrap_err();
        assert_eq!(problem, Problem::Limit(Limit::Cells(1_000_000)));
    }

    #[test]
    fn numbers_and_times_read_as_spreadsheets_show_them() {
        use calamine::ExcelDateTimeType::{DateTime, TimeDelta};
        assert_eq!(render_value(&Data::Float(0.1 + 0.2)), "0.3");
        assert_eq!(render_value(&Data::Float(1e21)), "1000000000000000000000");
        assert_eq!(render_value(&Data::Float(f64::NAN)), "NaN");
        assert_eq!(render_value(&Data::Int(-3)), "-3");
        assert_eq!(render_value(&Data::Bool(true)), "TRUE");
        let time = |value, kind| render_value(&Data::DateTime(ExcelDateTime::new(value, kind, false)));
        assert_eq!(time(45000.0, DateTime), "2023-03-15");
        assert_eq!(time(45000.75, DateTime), "2023-03-15 18:00:00");
        assert_eq!(time(0.25, DateTime), "06:00:00");
        assert_eq!(time(1.5, TimeDelta), "36:00:00");
    }
}
