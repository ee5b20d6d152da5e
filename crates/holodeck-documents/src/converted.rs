//! The result of converting a file: text with its provenance, or an image for the model.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Document, ImageFormat};

/// The result of converting a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Converted {
    /// Text with its provenance.
    Text(Document),
    /// An image, for the model.
    Image(Picture),
}

/// A picture.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its format, according to its content.
    pub format: ImageFormat,
    /// Its bytes in base64.
    pub base64: String,
    /// The text in it, if a text recognition program is configured.
    pub text: Option<String>,
    /// Notices for the user; lowercase, no full stop.
    pub notes: Vec<String>,
}

impl Converted {
    /// The text, or the text recognised in an image.
    pub fn into_document(self) -> Option<Document> {
        match self {
            Self::Text(document) => Some(document),
            Self::Image(picture) => Some(Document {
                text: picture.text?,
                notes: vec!["its text was read from an image".to_owned()],
                ..Document::default()
            }),
        }
    }
}

impl fmt::Debug for Picture {
    /// Without the bytes, which are useless in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture")
            .field("format", &self.format)
            .field("base64_len", &self.base64.len())
            .field("text", &self.text)
            .field("notes", &self.notes)
            .finish()
    }
}
