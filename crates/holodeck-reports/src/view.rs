//! A finished run for reports, and the formats of a report.

use std::{path::Path, rc::Rc};

use holodeck_model::{NotRun, ReportHead, RunMetadata};

use holodeck_runs::{CaseReport, JournalError};

use crate::CasePlaces;

/// A finished run, for reports: the totals, and the cases one at a time.
pub struct RunView<'a> {
    /// Everything except the cases.
    pub head: &'a ReportHead,
    /// About the agent.
    pub metadata: &'a RunMetadata,
    /// Provider and model, for display.
    pub model: &'a str,
    /// Where its cases are written, if that is known.
    pub(crate) places: Option<Rc<CasePlaces>>,
    results: &'a dyn Fn() -> Results<'a>,
}

/// Every planned case, in the order of the file.
pub type Results<'a> = Box<dyn Iterator<Item = Result<PlannedResult, JournalError>> + 'a>;

/// The outcome of a planned case.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a planned case has a result or none")]
pub enum PlannedResult {
    /// It has a result.
    Finished(Box<CaseReport>),
    /// It has none.
    NotRun(NotRun),
}

impl<'a> RunView<'a> {
    /// A view whose cases come from `results`.
    pub fn new(
        head: &'a ReportHead,
        metadata: &'a RunMetadata,
        model: &'a str,
        results: &'a dyn Fn() -> Results<'a>,
    ) -> Self {
        Self {
            head,
            metadata,
            model,
            places: None,
            results,
        }
    }

    /// The same run, with the places of its cases.
    #[must_use]
    pub fn with_places(&self, places: &Rc<CasePlaces>) -> Self {
        Self {
            places: Some(Rc::clone(places)),
            head: self.head,
            metadata: self.metadata,
            model: self.model,
            results: self.results,
        }
    }

    /// Every planned case, read again from the journal.
    pub fn planned(&self) -> Results<'a> {
        (self.results)()
    }

    /// The cases with a result.
    pub fn cases(&self) -> impl Iterator<Item = Result<CaseReport, JournalError>> + 'a {
        self.planned().filter_map(|planned| match planned {
            Ok(PlannedResult::Finished(case)) => Some(Ok(*case)),
            Ok(PlannedResult::NotRun(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The cases without a result.
    pub fn not_run(&self) -> impl Iterator<Item = Result<NotRun, JournalError>> + 'a {
        let any = self.head.summary.not_run > 0;
        let planned = any.then(|| self.planned()).into_iter().flatten();
        planned.filter_map(|planned| match planned {
            Ok(PlannedResult::NotRun(case)) => Some(Ok(case)),
            Ok(PlannedResult::Finished(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

/// A link in a page of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct PageLink {
    /// Where it leads to.
    pub href: String,
    /// Its text.
    pub text: String,
}

/// The page of a list that is shown, for the buttons that lead to others. They belong to the form `choose`.
pub(crate) struct Pages {
    pub(crate) name: &'static str,
    /// From 1.
    pub(crate) number: usize,
    pub(crate) count: usize,
}

/// The formats a report can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One object with 0.7.1's field names.
    Json,
    /// A comment for a pull request.
    Markdown,
    /// JUnit XML for CI servers.
    Junit,
    /// One self-contained page.
    Html,
    /// One line for the run, then one per case.
    Jsonl,
    /// Annotations of GitHub Actions.
    Github,
    /// GitLab's report of code quality.
    Gitlab,
    /// SARIF, for code scanning.
    Sarif,
}

impl Format {
    /// Every format, by name.
    pub const ALL: [Self; 8] = [
        Self::Json,
        Self::Markdown,
        Self::Junit,
        Self::Html,
        Self::Jsonl,
        Self::Github,
        Self::Gitlab,
        Self::Sarif,
    ];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Junit => "junit",
            Self::Html => "html",
            Self::Jsonl => "jsonl",
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Sarif => "sarif",
        }
    }

    /// Whether it shows the places of cases.
    pub fn has_places(self) -> bool {
        matches!(self, Self::Github | Self::Gitlab | Self::Sarif)
    }

    /// The format for a file's extension: JSON without one, `None` for an unknown one.
    pub fn of_path(path: &Path) -> Option<Self> {
        let Some(extension) = path.extension() else {
            return Some(Self::Json);
        };
        match extension.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "md" | "markdown" => Some(Self::Markdown),
            "xml" => Some(Self::Junit),
            "html" | "htm" => Some(Self::Html),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "sarif" => Some(Self::Sarif),
            _ => None,
        }
    }
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The output cannot be written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The choice of cases is not valid.
    #[error("{0}")]
    Query(String),
}
