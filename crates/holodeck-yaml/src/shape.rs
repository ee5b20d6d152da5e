//! The generated JSON Schema in the form that the checker uses.
//!
//! The schema is generated from the same types that serde fills, so there is one set of rules. A keyword that is not
//! supported here would be a rule that is not checked; a test prevents that.
//!
//! Generating it takes a sixth of the time of a run with one case, so the shapes are kept in `shape/*.json`; a test of
//! `holodeck-cli` compares them with the types.

mod read;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use indexmap::IndexMap;
use regex::Regex;
use serde::{Deserialize, Serialize};

pub(crate) use read::read_shapes;

/// A shape in the table of [`Shapes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShapeId(pub(crate) usize);

/// The shapes of one schema.
#[derive(Debug)]
pub(crate) struct Shapes {
    table: Vec<Entry>,
    pub(crate) root: ShapeId,
}

/// A shape, read when a file first needs it: most files need few of them.
#[derive(Debug)]
struct Entry {
    /// Its line in the text that keeps it.
    line: &'static str,
    shape: OnceLock<Shape>,
}

impl Entry {
    fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| {
            // No value fits a shape that cannot be read.
            serde_json::from_str(self.line).unwrap_or(Shape {
                nullable: false,
                kind: ShapeKind::Choice(Vec::new()),
            })
        })
    }
}

/// The text before and after the lines of kept shapes.
const TABLE: &str = "{\"table\":[\n";
const ROOT: &str = "\n],\"root\":";

impl Shapes {
    pub(crate) fn new(table: Vec<Shape>, root: ShapeId) -> Self {
        let entry = |shape: Shape| Entry {
            line: "",
            shape: shape.into(),
        };
        Self {
            table: table.into_iter().map(entry).collect(),
            root,
        }
    }

    /// Takes kept shapes. No value fits those of a text that keeps none.
    pub(crate) fn kept(text: &'static str) -> Self {
        Self::read(text).unwrap_or_else(|| Self {
            table: vec![Entry {
                line: "",
                shape: OnceLock::new(),
            }],
            root: ShapeId(0),
        })
    }

    fn read(text: &'static str) -> Option<Self> {
        let (lines, root) = text.strip_prefix(TABLE)?.split_once(ROOT)?;
        let entry = |line: &'static str| Entry {
            line: line.strip_suffix(',').unwrap_or(line),
            shape: OnceLock::new(),
        };
        Some(Self {
            table: lines.lines().map(entry).collect(),
            root: ShapeId(root.trim_end().strip_suffix('}')?.parse().ok()?),
        })
    }

    /// The text that keeps them: one shape a line, so that a change shows in a few lines, and that one is read alone.
    pub(crate) fn written(&self) -> String {
        let lines = self
            .all()
            .map(|shape| serde_json::to_string(shape).unwrap_or_default());
        let lines: Vec<String> = lines.collect();
        format!("{TABLE}{}{ROOT}{}}}\n", lines.join(",\n"), self.root.0)
    }

    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        static ANYTHING: Shape = Shape {
            nullable: true,
            kind: ShapeKind::Any,
        };
        self.table.get(id.0).map_or(&ANYTHING, Entry::shape)
    }

    /// Each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Shape> {
        self.table.iter().map(Entry::shape)
    }
}

/// The shape that a value must have.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) nullable: bool,
    pub(crate) kind: ShapeKind,
}

#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum TextRule {
    NotBlank,
    Form { pattern: Pattern, words: String },
}

/// A regular expression, compiled when a file first needs it: most files need few of them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Pattern {
    source: String,
    #[serde(skip)]
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
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    pub(crate) fields: IndexMap<String, Field>,
    /// Whether further keys are allowed.
    pub(crate) open: bool,
    /// Keys that a user may expect here, with the reason why they are refused.
    pub(crate) refused: IndexMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Field {
    pub(crate) shape: ShapeId,
    pub(crate) required: bool,
    pub(crate) description: String,
    /// The reason if the field has no effect.
    pub(crate) no_effect: Option<String>,
}
