//! Progress, results, status and errors of indexes.

use holodeck_backend_api::Explanation;
use holodeck_reports::format::count;
use holodeck_retrieval::{IndexStats, IngestPlan, RetrievalError};
use serde::Serialize;

/// Maximum number of failed sources in a message.
const MAX_NAMES: usize = 3;

/// How much of an index is built again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rebuild {
    /// Only new and changed sources are read and embedded.
    #[default]
    Changed,
    /// All sources are.
    Everything,
}

/// An event while an index is built.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "a progress display shows every event")]
pub enum IndexEvent {
    /// Progress of a build that has something to do.
    Progress {
        /// The tool.
        tool: String,
        /// Finished sources.
        done: usize,
        /// Sources to process.
        total: usize,
        /// Passages so far.
        passages: usize,
        /// The current source.
        source: Option<String>,
    },
    /// A note for the user.
    Note {
        /// The tool.
        tool: String,
        /// Lowercase, no full stop.
        message: String,
    },
    /// A source could not be indexed.
    Failed {
        /// The tool.
        tool: String,
        /// The source and the reason; lowercase, no full stop.
        message: String,
    },
    /// The index is up to date.
    Built(Build),
}

/// The result of building an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Build {
    /// The tool.
    pub tool: String,
    /// Sources in the index.
    pub sources: usize,
    /// Passages in the index.
    pub passages: usize,
    /// New sources.
    pub added: usize,
    /// Changed sources.
    pub changed: usize,
    /// Removed sources.
    pub removed: usize,
    /// Sources that could not be indexed, with the reasons.
    pub failed: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// How long it took.
    pub took_ms: u64,
}

impl Build {
    /// Whether there was nothing to do.
    pub fn is_unchanged(&self) -> bool {
        self.added == 0 && self.changed == 0 && self.removed == 0
    }

    /// A warning that answers are missing sources that the YAML names.
    pub(crate) fn warning(&self) -> Option<String> {
        let failures = self.describe_failures()?;
        Some(format!("index `{}` is incomplete: {failures}", self.tool))
    }

    /// Returns an error if the index is empty because every source failed: otherwise, searches would find nothing
    /// without a reason.
    pub(crate) fn refuse_empty(&self) -> Result<(), IndexError> {
        match self.describe_failures() {
            Some(failures) if self.sources == 0 => Err(IndexError::new(
                IndexErrorKind::Execution,
                format!("index `{}` is empty: {failures}", self.tool),
            )),
            _ => Ok(()),
        }
    }

    fn describe_failures(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let mut failures: Vec<&str> = self.failed.iter().take(MAX_NAMES).map(String::as_str).collect();
        let more = format!("and {} more", self.failed.len().saturating_sub(MAX_NAMES));
        if self.failed.len() > MAX_NAMES {
            failures.push(&more);
        }
        let failed = count(self.failed.len(), "source");
        Some(format!("{failed} could not be indexed: {}", failures.join("; ")))
    }
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusState {
    /// It is up to date.
    Ready,
    /// Sources were added, changed or removed.
    Stale,
    /// It does not exist.
    NotBuilt,
    /// It can't be used.
    Unusable,
}

/// The status of an index.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct IndexStatus {
    /// The tool.
    pub tool: String,
    /// Its state.
    pub state: StatusState,
    /// The state in words.
    pub found: String,
    /// The next step, unless it is simply to build the index.
    pub hint: Option<String>,
    /// Its source, as the YAML names it.
    pub source: String,
    /// The store that contains it.
    pub store: String,
    /// How it was built.
    pub made: Option<String>,
    /// Sources in the index.
    pub sources: usize,
    /// Passages in the index.
    pub passages: usize,
    /// Bytes on disk, if the store reports them.
    pub bytes: Option<u64>,
    /// Sources that it does not contain yet.
    pub added: usize,
    /// Sources that changed since it was built.
    pub changed: usize,
    /// Removed sources.
    pub removed: usize,
}

/// The result of copying an index.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Migration {
    /// The tool.
    pub tool: String,
    /// The store it was copied from.
    pub from: String,
    /// The store it was copied to.
    pub to: String,
    /// Sources that were copied.
    pub sources: usize,
    /// Passages that were copied.
    pub passages: usize,
}

/// Why an operation on an index failed.
#[derive(Debug, thiserror::Error)]
#[error("{explanation}")]
#[non_exhaustive]
pub struct IndexError {
    /// The kind of the error.
    pub kind: IndexErrorKind,
    /// The problem, and the next step if there is one.
    pub explanation: Explanation,
}

/// The kind of an error, which decides what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexErrorKind {
    /// The YAML or the command line must be changed.
    Config,
    /// The index was built with other settings and must be rebuilt.
    Mixed,
    /// A server, file or machine failed.
    Execution,
    /// It was interrupted; finished sources are kept.
    Interrupted,
}

impl IndexError {
    pub(crate) fn new(kind: IndexErrorKind, explanation: impl Into<Explanation>) -> Self {
        let mut explanation = explanation.into();
        if kind == IndexErrorKind::Mixed {
            // Each command adds its own hint for rebuilding.
            explanation.hint = None;
        }
        Self { kind, explanation }
    }

    pub(crate) fn config(explanation: impl Into<Explanation>) -> Self {
        Self::new(IndexErrorKind::Config, explanation)
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.explanation.hint = Some(hint.to_owned());
        self
    }

    /// The error of an operation on the index of a tool.
    pub(crate) fn of(tool: &str, error: &RetrievalError) -> Self {
        let kind = match error {
            RetrievalError::Setup(_) | RetrievalError::Query(_) => IndexErrorKind::Config,
            RetrievalError::Mixed { .. } => IndexErrorKind::Mixed,
            RetrievalError::Cancelled => return Self::new(IndexErrorKind::Interrupted, "interrupted"),
            _ => IndexErrorKind::Execution,
        };
        Self::new(kind, error.explanation().within(format!("index `{tool}`")))
    }
}

/// Describes the state of an index in words.
pub(super) fn describe_state(plan: &IngestPlan, stats: &IndexStats) -> String {
    let contents = format!(
        "{}, {}",
        count(stats.sources, "source"),
        count(stats.passages, "passage")
    );
    let parts = [
        (plan.added.len(), "new"),
        (plan.changed.len(), "changed"),
        (plan.removed.len(), "removed"),
        (plan.failed.len(), "unreadable"),
    ];
    let differences: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if differences.is_empty() {
        contents
    } else {
        format!("{contents}; in the sources: {}", differences.join(", "))
    }
}
