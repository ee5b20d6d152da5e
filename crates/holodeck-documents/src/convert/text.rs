//! Decodes text in any common encoding.

use crate::{Document, text::decode};

pub(super) fn convert(bytes: &[u8]) -> Document {
    let (text, notes) = decode(bytes);
    super::plain(text, notes)
}
