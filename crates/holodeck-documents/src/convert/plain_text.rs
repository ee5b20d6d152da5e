//! Text is kept unchanged.

use crate::{ConvertOptions, Document, Problem};

pub(super) fn convert(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let (text, notes) = super::decode(bytes, options)?;
    Ok(super::plain(text, notes))
}
