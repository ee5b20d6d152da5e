//! Files given to the agent with a question.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::{PathRef, nullable};

/// A file that accompanies a question: from a path or a URL, exactly one of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileInput {
    /// Path of the file.
    pub path: Option<PathRef>,
    /// URL of the file.
    #[schemars(regex(pattern = r"\S"))]
    pub url: Option<String>,
    /// The kind of the file.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// A description of the content.
    pub description: Option<String>,
    /// Pages to use, counted from 1.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<std::num::NonZeroU32>>")]
    pub pages: Vec<u32>,
    /// Sheet of a workbook.
    pub sheet: Option<String>,
    /// Range of cells, as in `A1:E100`.
    #[schemars(regex(pattern = r"^[A-Za-z]+[0-9]+:[A-Za-z]+[0-9]+$"), extend("x-form" = "a range such as `A1:E100`"))]
    pub range: Option<String>,
    /// Whether a downloaded file is cached; true if absent.
    pub cache: Option<bool>,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileType {
    /// A picture.
    Image,
    /// A PDF document.
    Pdf,
    /// Plain text or Markdown.
    Text,
    /// A spreadsheet.
    Excel,
    /// A word processor document.
    Word,
    /// A presentation.
    Powerpoint,
    /// Comma-separated values.
    Csv,
}
