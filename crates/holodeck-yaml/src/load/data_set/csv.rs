//! Rows of a CSV file with the place of each cell.

use csv_core::{ReadFieldResult, Reader};

use super::{offset, table::Cell};

/// Reads a text row by row.
pub(crate) struct CsvRows<'t> {
    text: &'t str,
    at: usize,
    reader: Reader,
    buffer: Vec<u8>,
}

/// A row, which may extend over several lines.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// Where cells begin whose quotes are wrong: the reader is lenient, and could join rows without a word.
    pub(crate) misquoted: Vec<u32>,
}

impl<'t> CsvRows<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            reader: Reader::new(),
            buffer: vec![0; 1024],
        }
    }

    /// The next row; lines without any character are no rows.
    pub(crate) fn next_row(&mut self) -> Option<Row> {
        let mut row = Row::default();
        let (mut start, mut len) = (self.at, 0);
        loop {
            let input = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let output = self.buffer.get_mut(len..).unwrap_or_default();
            let (result, read, written) = self.reader.read_field(input, output);
            self.at += read;
            len += written;
            match result {
                ReadFieldResult::InputEmpty => {}
                ReadFieldResult::OutputFull => self.buffer.resize(self.buffer.len() * 2, 0),
                ReadFieldResult::End => return None,
                ReadFieldResult::Field { record_end } => {
                    let first = row.cells.is_empty();
                    self.add_cell(&mut row, start, len, first, record_end);
                    if record_end {
                        return Some(row);
                    }
                    (start, len) = (self.at, 0);
                }
            }
        }
    }

    fn add_cell(&self, row: &mut Row, start: usize, len: usize, first: bool, last: bool) {
        let mut raw = self.text.get(start..self.at).unwrap_or_default();
        let mut start = start;
        if first {
            // The rest of the line end before, and empty lines.
            let trimmed = raw.trim_start_matches(['\r', '\n']);
            start += raw.len() - trimmed.len();
            raw = trimmed;
        }
        let raw = if last {
            raw.trim_end_matches(['\r', '\n'])
        } else {
            raw.strip_suffix(',').unwrap_or(raw)
        };
        if is_misquoted(raw) {
            row.misquoted.push(offset(start));
        }
        let unescaped = self.buffer.get(..len).unwrap_or_default();
        let inner = raw
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .map_or((start, raw), |inner| (start + 1, inner));
        let owned = (inner.1.as_bytes() != unescaped)
            .then(|| String::from_utf8_lossy(unescaped).into_owned().into_boxed_str());
        let place = if owned.is_some() { (start, raw) } else { inner };
        row.cells.push(Cell {
            start: offset(place.0),
            end: offset(place.0 + place.1.len()),
            owned,
        });
    }
}

/// Whether a cell has a quote that is not closed, text after its closing quote, or text before its opening quote.
fn is_misquoted(raw: &str) -> bool {
    match raw.strip_prefix('"') {
        Some(rest) => rest
            .strip_suffix('"')
            .is_none_or(|inner| inner.replace("\"\"", "").contains('"')),
        None => raw.trim_start().starts_with('"'),
    }
}
