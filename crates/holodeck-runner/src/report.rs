mod explain;
mod former;
mod html;
mod json;
mod jsonl;
mod junit;
mod markdown;
pub mod words;

use std::{io::Write, path::Path};

use holodeck_model::{ReportHead, RunMetadata, TestResult};

use crate::JournalError;

/// A finished run as reports see it: the totals, and the cases one at a time.
pub struct RunView<'a> {
    /// Everything but the cases.
    pub head: &'a ReportHead,
    /// About the agent.
    pub metadata: &'a RunMetadata,
    results: &'a dyn Fn() -> Results<'a>,
}

/// Cases in the order of the file.
pub type Results<'a> = Box<dyn Iterator<Item = Result<TestResult, JournalError>> + 'a>;

impl<'a> RunView<'a> {
    /// A view whose cases come from `results`.
    pub fn new(
        head: &'a ReportHead,
        metadata: &'a RunMetadata,
        results: &'a dyn Fn() -> Results<'a>,
    ) -> Self {
        Self {
            head,
            metadata,
            results,
        }
    }

    /// The cases, read anew.
    pub fn results(&self) -> Results<'a> {
        (self.results)()
    }
}

/// The formats a report can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One object with 0.7.1's field names.
    Json,
    /// For a pull request.
    Markdown,
    /// For CI servers.
    Junit,
    /// One self-contained page.
    Html,
    /// One line for the run, then one per case.
    Jsonl,
}

impl Format {
    /// Every format, by name.
    pub const ALL: [Self; 5] = [Self::Json, Self::Markdown, Self::Junit, Self::Html, Self::Jsonl];

    /// The name people write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Junit => "junit",
            Self::Html => "html",
            Self::Jsonl => "jsonl",
        }
    }

    /// What a file's name asks for; JSON if it asks for nothing.
    pub fn of_path(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
            "md" | "markdown" => Self::Markdown,
            "xml" => Self::Junit,
            "html" | "htm" => Self::Html,
            "jsonl" | "ndjson" => Self::Jsonl,
            _ => Self::Json,
        }
    }
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The place to write to failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Writes a report. Memory does not grow with the number of cases.
pub fn write_report(format: Format, view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    match format {
        Format::Json => json::report(view, out),
        Format::Markdown => markdown::report(view, out),
        Format::Junit => junit::report(view, out),
        Format::Html => html::report(view, out),
        Format::Jsonl => jsonl::report(view, out),
    }
}

pub use explain::{DiffLine, Difference, Explanation, Reason, explain, explain_in_a_line};
pub(crate) use json::{Totals, run_file};

#[cfg(test)]
pub(crate) mod samples;
