//! A file as Markdown text, with the page, slide or sheet that each part comes from.

use serde::{Deserialize, Serialize};

/// A file as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Markdown; every position is a byte offset into it.
    pub text: String,
    /// Origin of its parts, in the order of their positions.
    pub marks: Vec<Mark>,
    /// Its title, if the file has one.
    pub title: Option<String>,
    /// Notices about the conversion for the user; lowercase, no full stop.
    pub notes: Vec<String>,
}

/// The text from this position to the next mark of the same kind comes from `place`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The position of its first byte.
    pub at: usize,
    /// The place in the file.
    pub place: Place,
}

/// A place in a file with pages, slides or sheets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A page, counted from 1.
    Page(u32),
    /// A slide, counted from 1.
    Slide(u32),
    /// A sheet of a workbook.
    Sheet(String),
}
