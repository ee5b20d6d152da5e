use serde::{Deserialize, Serialize};

/// A file as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Markdown; every position is a byte offset into it.
    pub text: String,
    /// Where its parts came from, in the order of their positions.
    pub marks: Vec<Mark>,
    /// Its title, where the file tells one.
    pub title: Option<String>,
    /// What a person should know of the conversion; lower case, no full stop.
    pub notes: Vec<String>,
}

/// From here on, up to the next mark of its kind, the text came from `place`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The position of its first byte.
    pub at: usize,
    /// The place in the file.
    pub place: Place,
}

/// A place in a file that is not simply text.
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
