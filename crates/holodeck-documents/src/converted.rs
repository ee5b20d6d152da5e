use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Document, ImageFormat};

/// What a file became.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Converted {
    /// Text, with where it came from.
    Text(Document),
    /// A picture, for a model to look at.
    Image(Picture),
}

/// A picture.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its kind, as its content tells.
    pub format: ImageFormat,
    /// Its bytes in base64.
    pub base64: String,
    /// The text in it, if a program that reads such text was given.
    pub text: Option<String>,
    /// What a person should know of it; lower case, no full stop.
    pub notes: Vec<String>,
}

impl Converted {
    /// Its text: of a picture what was read in it.
    pub fn into_document(self) -> Option<Document> {
        match self {
            Self::Text(document) => Some(document),
            Self::Image(picture) => Some(Document {
                text: picture.text?,
                notes: vec!["its text was read from a picture".to_owned()],
                ..Document::default()
            }),
        }
    }
}

impl fmt::Debug for Picture {
    /// Without the bytes, which tell a reader nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture")
            .field("format", &self.format)
            .field("base64_len", &self.base64.len())
            .field("text", &self.text)
            .field("notes", &self.notes)
            .finish()
    }
}
