//! How a workbook shows its cells: the number formats of a sheet, and the rows and columns that it hides. Values of cells are
//! read by others.

mod formats;
mod hidden;
mod number_format;

pub use formats::cell_formats;
pub use hidden::{HiddenLines, letters};
pub use number_format::{CellFormats, plain_number};
