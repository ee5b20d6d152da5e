//! The generated JSON Schema as the checker reads it.
//!
//! The schema comes from the same types that serde fills, so there is one book of rules. A keyword that is not
//! understood here would be a rule that is not checked; a test keeps that from happening.

mod read;

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use regex::Regex;

pub(crate) use read::read_shapes;

/// A shape in the table of [`Shapes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShapeId(pub(crate) usize);

/// The shapes of one schema.
#[derive(Debug)]
pub(crate) struct Shapes {
    pub(crate) table: Vec<Shape>,
    pub(crate) root: ShapeId,
}

impl Shapes {
    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        static ANYTHING: Shape = Shape {
            nullable: true,
            kind: ShapeKind::Any,
        };
        self.table.get(id.0).unwrap_or(&ANYTHING)
    }
}

/// What a value must look like.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) nullable: bool,
    pub(crate) kind: ShapeKind,
}

#[derive(Debug)]
pub(crate) enum ShapeKind {
    /// Anything at all.
    Any,
    Text(Option<TextRule>),
    Bool,
    Integer {
        min: i128,
        max: i128,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
        above: Option<f64>,
        multiple_of: Option<f64>,
    },
    /// One of these texts.
    Choice(Vec<String>),
    List {
        items: ShapeId,
        min: usize,
        max: Option<usize>,
    },
    /// A mapping with known keys.
    Record(Record),
    /// A mapping with free keys.
    Table {
        values: ShapeId,
        min: usize,
    },
    /// A mapping whose `type` says which record it is.
    Tagged {
        variants: Vec<(String, Record)>,
        may_omit_type: bool,
    },
    /// Different shapes for texts, lists and mappings.
    Either(Vec<ShapeId>),
}

/// The form of a text.
#[derive(Debug)]
pub(crate) enum TextRule {
    NotBlank,
    Form { pattern: Regex, words: String },
}

/// A mapping with known keys.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) fields: IndexMap<String, Field>,
    /// Whether further keys are allowed.
    pub(crate) open: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: ShapeId,
    pub(crate) required: bool,
    pub(crate) description: String,
    /// Why the field has no effect, if it has none.
    pub(crate) no_effect: Option<String>,
}
