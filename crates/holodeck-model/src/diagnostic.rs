//! Problems of a configuration: what is wrong, where, and what to do about it.

use std::{fmt, path::Path, sync::Arc};

use serde::Serialize;

use crate::Code;

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing runs until this is fixed.
    Error,
    /// It runs, but probably not as meant.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The lower-case word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A range of bytes in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A place in a file that an editor can open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Location {
    /// The file, as given.
    pub path: Arc<Path>,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The same place in bytes (after a byte order mark, if the file has one).
    pub span: Span,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// A second place that explains the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Where.
    pub location: Location,
    /// An explanation of the place.
    pub message: String,
}

/// One problem of a configuration: plain data, rendered elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// One line, lower case, without a full stop.
    pub message: String,
    /// The field it is about, as in `tools.0.top_k`; absent if it is not about a field.
    pub pointer: Option<String>,
    /// The primary place; absent if the problem is not in a file.
    pub primary: Option<Location>,
    /// A short text for the primary place (`did you mean ...?`).
    pub inline: Option<String>,
    /// Further places.
    pub labels: Vec<Label>,
    /// Background, one line each.
    pub notes: Vec<String>,
    /// The next action, shown as `hint:`.
    pub help: Option<String>,
    /// The text that solves it in the primary place: for a program that edits the file. It may quote the file and is not shown.
    #[serde(skip)]
    pub fix: Option<String>,
}

impl Diagnostic {
    /// A diagnostic with nothing but its message.
    pub fn new(code: Code, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            message: message.into(),
            pointer: None,
            primary: None,
            inline: None,
            labels: Vec::new(),
            notes: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// An error.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, message)
    }

    /// A warning.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message)
    }

    /// A note.
    pub fn note(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, message)
    }

    /// Sets the primary place.
    #[must_use]
    pub fn at(mut self, location: impl Into<Option<Location>>) -> Self {
        self.primary = location.into();
        self
    }

    /// Sets the field it is about.
    #[must_use]
    pub fn about(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into()).filter(|pointer| !pointer.is_empty());
        self
    }

    /// Sets the short text for the primary place.
    #[must_use]
    pub fn with_inline(mut self, text: impl Into<String>) -> Self {
        self.inline = Some(text.into());
        self
    }

    /// Adds a second place.
    #[must_use]
    pub fn with_label(mut self, location: Location, message: impl Into<String>) -> Self {
        self.labels.push(Label {
            location,
            message: message.into(),
        });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the next action.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the text that solves it in the primary place.
    #[must_use]
    pub fn with_fix(mut self, text: impl Into<String>) -> Self {
        self.fix = Some(text.into());
        self
    }

    /// The next action in one text, for outputs without room for both the inline text and the help.
    pub fn hint(&self) -> Option<String> {
        match (&self.inline, &self.help) {
            (Some(inline), Some(help)) => Some(format!("{inline}; {help}")),
            (inline, help) => inline.clone().or_else(|| help.clone()),
        }
    }

    /// All texts in it that may quote the file.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let labels = self.labels.iter_mut().map(|label| &mut label.message);
        [&mut self.pointer, &mut self.inline, &mut self.help]
            .into_iter()
            .flatten()
            .chain(labels)
            .chain(&mut self.notes)
            .chain([&mut self.message])
    }

    /// Whether this stops a run.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
