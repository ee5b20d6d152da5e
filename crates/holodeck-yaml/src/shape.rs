//! The generated JSON Schema in the form that the checker uses.
//!
//! The schema is generated from the same types that serde fills, so there is one set of rules. A keyword that is not
//! supported here would be a rule that is not checked; a test prevents that.

mod read;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

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

/// The shape that a value must have.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) nullable: bool,
    pub(crate) kind: ShapeKind,
}

#[derive(Debug)]
pub(crate) enum ShapeKind {
    /// Any value.
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
    /// One of these strings.
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
    /// A mapping whose `type` selects the record.
    Tagged {
        variants: Vec<(String, Record)>,
        may_omit_type: bool,
    },
    /// Different shapes for strings, lists and mappings.
    Either(Vec<ShapeId>),
}

/// The rule for a string.
#[derive(Debug)]
pub(crate) enum TextRule {
    NotBlank,
    Form { pattern: Pattern, words: String },
}

/// A regular expression, compiled when a file first needs it: most files need few of them.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: String,
    regex: OnceLock<Option<Regex>>,
}

impl Pattern {
    fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            regex: OnceLock::new(),
        }
    }

    /// Whether it matches; an invalid expression is no rule.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        let regex = self.regex.get_or_init(|| Regex::new(&self.source).ok());
        regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

/// A mapping with known keys.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) fields: IndexMap<String, Field>,
    /// Whether further keys are allowed.
    pub(crate) open: bool,
    /// Keys that a user may expect here, with the reason why they are refused.
    pub(crate) refused: IndexMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: ShapeId,
    pub(crate) required: bool,
    pub(crate) description: String,
    /// The reason if the field has no effect.
    pub(crate) no_effect: Option<String>,
}
