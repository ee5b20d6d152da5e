//! The number formats of a sheet's cells, and the texts that the sheet shows with them. It must not read a workbook.

use super::{NumberFormatError, plain_number, render_number, render_text};

/// The number format of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellFormat {
    /// Its code, such as `0.0%`.
    pub(crate) code: String,
    /// Its identifier, where it has one.
    pub(crate) id: Option<u32>,
}

/// The number formats of a sheet's cells by row and column, counted from 0.
#[derive(Debug)]
pub struct CellFormats {
    /// The places of formats in their list, by row and column, sorted.
    cells: Vec<((u32, u32), u32)>,
    formats: Vec<Option<CellFormat>>,
}

impl CellFormats {
    /// The formats of a workbook in its order, and row, column and format of each cell. `None` if more than `most` cells
    /// have another format than the first one.
    pub(crate) fn collect<E>(
        formats: impl Iterator<Item = Option<CellFormat>>,
        cells: impl Iterator<Item = Result<(u32, u32, usize), E>>,
        most: usize,
    ) -> Result<Option<Self>, E> {
        // `General` changes nothing.
        let formats: Vec<_> = formats
            .map(|format| format.filter(|format| format.id != Some(0)))
            .collect();
        let mut found = Vec::new();
        if formats.iter().any(Option::is_some) {
            for cell in cells {
                let (row, column, format) = cell?;
                // A cell that is not listed has the first format.
                if formats.get(format) == formats.first() {
                    continue;
                }
                if found.len() == most {
                    return Ok(None);
                }
                found.push(((row, column), u32::try_from(format).unwrap_or(u32::MAX)));
            }
            found.sort_unstable();
        }
        Ok(Some(Self {
            cells: found,
            formats,
        }))
    }

    fn get(&self, position: (u32, u32)) -> Option<&CellFormat> {
        let found = self
            .cells
            .binary_search_by_key(&position, |(position, _)| *position);
        let format = found.ok().and_then(|at| self.cells.get(at));
        self.formats
            .get(format.map_or(0, |(_, format)| *format as usize))?
            .as_ref()
    }

    /// The text that the sheet shows for a number in a cell.
    pub fn number(&self, position: (u32, u32), value: f64) -> Result<String, NumberFormatError> {
        match self.get(position) {
            Some(format) => render_number(value, &format.code, format.id),
            None => Ok(plain_number(value)),
        }
    }

    /// The text that the sheet shows for a text in a cell.
    pub fn text(&self, position: (u32, u32), text: &str) -> Result<String, NumberFormatError> {
        match self.get(position) {
            Some(format) => render_text(text, &format.code),
            None => Ok(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use pretty_assertions::assert_eq;

    use super::*;

    fn formats() -> Vec<Option<CellFormat>> {
        let format = |code: &str, id| {
            Some(CellFormat {
                code: code.to_owned(),
                id,
            })
        };
        vec![
            None,
            format("0%", Some(9)),
            format("General", Some(0)),
            format("00000", None),
        ]
    }

    fn collect(cells: &[(u32, u32, usize)], most: usize) -> Option<CellFormats> {
        let cells = cells.iter().map(|cell| Ok::<_, Infallible>(*cell));
        CellFormats::collect(formats().into_iter(), cells, most).unwrap()
    }

    #[test]
    fn a_cell_has_its_own_format_or_the_first() {
        let formats = collect(&[(4, 1, 3), (2, 0, 1), (2, 7, 2)], 9).unwrap();
        let shown = |position| formats.number(position, 0.5).unwrap();
        // Rows out of order, a format without effect, one that does not exist, and a cell that is not listed.
        assert_eq!([(2, 0), (2, 7), (2, 1)].map(shown), ["50%", "0.5", "0.5"]);
        assert_eq!(formats.number((4, 1), 42.0), Ok("00042".to_owned()));
        assert_eq!(formats.text((4, 1), "x"), Ok("x".to_owned()));
        assert_eq!(
            collect(&[(0, 0, 99)], 9).unwrap().number((0, 0), 0.5),
            Ok("0.5".to_owned())
        );
    }

    #[test]
    fn only_cells_with_a_format_of_their_own_count() {
        assert!(collect(&[(0, 0, 0), (0, 1, 2), (0, 2, 1)], 1).is_some());
        assert!(collect(&[(0, 0, 1), (0, 1, 3)], 1).is_none());
    }

    #[test]
    fn the_error_of_the_reader_is_returned() {
        let cells = [Ok((0, 0, 1)), Err("broken")].into_iter();
        let error = CellFormats::collect(formats().into_iter(), cells, 9).unwrap_err();
        assert_eq!(error, "broken");
    }
}
