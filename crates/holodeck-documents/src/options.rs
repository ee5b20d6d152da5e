//! Which pages, sheets or cells of a file are read. An option that does not apply to the format is an error.

use serde::{Deserialize, Serialize};

use crate::{Format, Problem};

/// Which parts of a file to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvertOptions {
    /// Pages or slides, counted from 1; empty for all of them.
    pub pages: Vec<u32>,
    /// A sheet of a workbook; `None` for all of them.
    pub sheet: Option<String>,
    /// A range of cells such as `A1:E100`; `None` for all of them.
    pub range: Option<String>,
    /// The format according to a media type, for names without an extension: servers call many a table plain text. The
    /// content always decides.
    pub format: Option<Format>,
    /// The character set that the server of a file declares, as in `text/html; charset=gbk`.
    pub charset: Option<String>,
    /// The size limit of a file.
    pub max_bytes: u64,
}

impl Default for ConvertOptions {
    /// All of the file, up to 100 MiB.
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            sheet: None,
            range: None,
            format: None,
            charset: None,
            max_bytes: 100 * 1024 * 1024,
        }
    }
}

impl ConvertOptions {
    /// Checks that the options apply to a format, so that none is silently ignored.
    pub(crate) fn check(&self, format: Format) -> Result<(), Problem> {
        let unfit = |option: &str| {
            let option = option.to_owned();
            Err(Problem::Unfit { option, format })
        };
        if !self.pages.is_empty() && !matches!(format, Format::Pdf | Format::Pptx) {
            return unfit("pages");
        }
        let workbook = matches!(format, Format::Xlsx | Format::Xls | Format::Ods);
        if self.sheet.is_some() && !workbook {
            return unfit("sheet");
        }
        if self.range.is_some() && !workbook && !matches!(format, Format::Csv | Format::Tsv) {
            return unfit("range");
        }
        Ok(())
    }
}

/// A rectangle of cells; rows and columns are counted from 0, and both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRange {
    pub(crate) rows: (u32, u32),
    pub(crate) columns: (u32, u32),
}

impl CellRange {
    /// Reads `A1:E100`; the ends may be in any order.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let bad = || Problem::BadRange(text.to_owned());
        let (from, to) = text.trim().split_once(':').ok_or_else(bad)?;
        let (from, to) = (cell(from).ok_or_else(bad)?, cell(to).ok_or_else(bad)?);
        Ok(Self {
            rows: (from.0.min(to.0), from.0.max(to.0)),
            columns: (from.1.min(to.1), from.1.max(to.1)),
        })
    }

    pub(crate) fn has_row(&self, row: u32) -> bool {
        (self.rows.0..=self.rows.1).contains(&row)
    }

    pub(crate) fn has(&self, row: u32, column: u32) -> bool {
        self.has_row(row) && self.has_column(column)
    }

    pub(crate) fn has_column(&self, column: u32) -> bool {
        (self.columns.0..=self.columns.1).contains(&column)
    }
}

/// The row and column of a cell such as `B7` or `$B$7`.
fn cell(name: &str) -> Option<(u32, u32)> {
    let name = name.replace('$', "");
    let digits = name.find(|c: char| c.is_ascii_digit())?;
    let (letters, digits) = name.split_at_checked(digits)?;
    if letters.is_empty() || letters.len() > 3 {
        return None;
    }
    let mut column = 0;
    for letter in letters.chars() {
        let letter = letter.to_ascii_uppercase();
        if !letter.is_ascii_uppercase() {
            return None;
        }
        column = column * 26 + (letter as u32 - 'A' as u32 + 1);
    }
    let row: u32 = digits.parse().ok()?;
    Some((row.checked_sub(1)?, column - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_in_any_order_of_their_ends() {
        let range = CellRange {
            rows: (0, 99),
            columns: (0, 4),
        };
        for text in ["A1:E100", "e100:a1", "$A$1:$E$100", "A100:E1"] {
            assert_eq!(CellRange::parse(text), Ok(range), "{text}");
        }
        let far = CellRange::parse("AA1:XFD1048576").unwrap();
        assert_eq!((far.columns, far.rows.1), ((26, 16383), 1_048_575));
        for text in [
            "A1",
            "A0:B2",
            "1:2",
            "A:B",
            "A1:B2:C3",
            "AAAA1:B2",
            "Ä1:B2",
            "A99999999999:B2",
            "",
        ] {
            assert_eq!(CellRange::parse(text), Err(Problem::BadRange(text.to_owned())));
        }
    }

    #[test]
    fn an_option_that_would_be_ignored_is_refused() {
        let options = ConvertOptions {
            pages: vec![1],
            ..ConvertOptions::default()
        };
        assert_eq!(options.check(Format::Pdf), Ok(()));
        let problem = options.check(Format::Docx).unwrap_err();
        assert_eq!(problem.to_string(), "`pages` does not apply to a Word document");
    }
}
