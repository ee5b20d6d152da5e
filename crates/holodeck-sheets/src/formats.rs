//! Takes the number formats of a sheet's cells from an Excel workbook.

use std::{
    io::{Read, Seek},
    iter,
};

use calamine::{Style, Xlsx, XlsxError};

use crate::number_format::{CellFormat, CellFormats};

/// The number formats of a sheet's cells; `None` if more than `most` cells have another format than the first one.
pub fn cell_formats<R: Read + Seek>(
    book: &mut Xlsx<R>,
    sheet: &str,
    most: usize,
) -> Result<Option<CellFormats>, XlsxError> {
    let mut reader = book.worksheet_cells_reader(sheet)?;
    let formats: Vec<_> = reader.styles().iter().map(format_of).collect();
    let cells = iter::from_fn(|| reader.next_style_id().transpose());
    CellFormats::collect(formats.into_iter(), cells, most)
}

fn format_of(style: &Style) -> Option<CellFormat> {
    let format = style.number_format.as_ref()?;
    Some(CellFormat {
        code: format.format_code.clone(),
        id: format.format_id,
    })
}
