use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Place;

/// A piece of a document, small enough to embed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its text as it is shown: what stands at its range, and before that the head of a table whose later rows it
    /// begins with.
    pub text: String,
    /// Where it stands in the document's text; neither end is white space.
    pub range: Range<usize>,
    /// Titles of the sections around it, outermost first.
    pub headings: Vec<String>,
    /// The number of its section, such as `4.2`, `12(b)`, `Article IV` or `Schedule A`, where it has one.
    pub section: Option<String>,
    /// The page, slide or sheet it begins on.
    pub place: Option<Place>,
    /// Terms that it defines.
    pub definitions: Vec<Definition>,
    /// Sections of the same document that it refers to, by their numbers as in `section`.
    pub references: Vec<String>,
}

/// A term and what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The term.
    pub term: String,
    /// Its meaning, in the document's words.
    pub meaning: String,
}
