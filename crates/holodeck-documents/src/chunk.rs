//! A chunk of a document with its range, headings, section number and definitions.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Place;

/// A part of a document, small enough to embed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The text that is shown: the text at its range, preceded by the table head if it starts with later rows of a
    /// table.
    pub text: String,
    /// Its range in the document's text; neither end is white space.
    pub range: Range<usize>,
    /// Titles of the enclosing sections, outermost first.
    pub headings: Vec<String>,
    /// The number of its section, such as `4.2`, `12(b)`, `Article IV` or `Schedule A`, if it has one.
    pub section: Option<String>,
    /// The page, slide or sheet where it begins.
    pub place: Option<Place>,
    /// Terms that it defines.
    pub definitions: Vec<Definition>,
    /// Sections of the same document that it refers to, numbered as in `section`.
    pub references: Vec<String>,
}

/// A term and its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The term.
    pub term: String,
    /// Its meaning, in the document's words.
    pub meaning: String,
}
