//! What is told of indexes.

use std::fmt;

use holodeck_retrieval::{IndexStats, IngestPlan, RetrievalError};
use holodeck_runner::words::count;
use serde::Serialize;

/// Sources that are named when some could not be taken in; of the others their number.
const TOLD: usize = 3;

/// Whether what an index holds counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rebuild {
    /// Only what is new or changed is read and embedded.
    #[default]
    Changed,
    /// Everything is.
    Everything,
}

/// What happens while an index is built.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "whoever shows progress shows all of it")]
pub enum IndexEvent {
    /// There is something to do, and so much of it is done.
    Progress {
        /// The tool.
        tool: String,
        /// Sources that are done.
        done: usize,
        /// Sources there are to do.
        total: usize,
        /// Passages so far.
        passages: usize,
        /// The one that is worked on.
        source: Option<String>,
    },
    /// Something a person should know.
    Note {
        /// The tool.
        tool: String,
        /// Lower case, no full stop.
        message: String,
    },
    /// A source could not be taken in.
    Failed {
        /// The tool.
        tool: String,
        /// Which, and why; lower case, no full stop.
        message: String,
    },
    /// It is up to date.
    Built(Build),
}

/// What building an index came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Build {
    /// The tool.
    pub tool: String,
    /// Sources it holds.
    pub sources: usize,
    /// Passages it holds.
    pub passages: usize,
    /// Sources that were new.
    pub added: usize,
    /// Sources that were others than before.
    pub changed: usize,
    /// Sources that are gone.
    pub removed: usize,
    /// Sources that could not be taken in, and why.
    pub failed: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// How long it took.
    pub took_ms: u64,
}

impl Build {
    /// Whether there was nothing to do.
    pub fn is_unchanged(&self) -> bool {
        self.added == 0 && self.changed == 0 && self.removed == 0
    }

    /// What a reader of answers must know: that they were given without something the YAML names.
    pub(crate) fn lacks(&self) -> Option<String> {
        let told = self.told_failures()?;
        Some(format!("index `{}` is not whole: {told}", self.tool))
    }

    /// An error if it holds nothing because nothing could be taken in: whoever searches would find nothing, as if
    /// nothing fitted.
    pub(crate) fn refuse_empty(&self) -> Result<(), IndexError> {
        match self.told_failures() {
            Some(told) if self.sources == 0 => Err(IndexError::new(
                IndexErrorKind::Execution,
                format!("index `{}` is empty: {told}", self.tool),
            )),
            _ => Ok(()),
        }
    }

    fn told_failures(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let mut told: Vec<&str> = self.failed.iter().take(TOLD).map(String::as_str).collect();
        let more = format!("and {} more", self.failed.len().saturating_sub(TOLD));
        if self.failed.len() > TOLD {
            told.push(&more);
        }
        let failed = count(self.failed.len(), "source");
        Some(format!("{failed} could not be taken in: {}", told.join("; ")))
    }
}

/// How an index stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusState {
    /// It is what its sources are.
    Ready,
    /// Sources were added, changed or taken away.
    Stale,
    /// There is none.
    NotBuilt,
    /// It can't be used as it is.
    Unusable,
}

/// How an index stands, and what it is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct IndexStatus {
    /// The tool.
    pub tool: String,
    /// How it stands.
    pub state: StatusState,
    /// The same in words.
    pub found: String,
    /// The next step, where it is not simply to build it.
    pub hint: Option<String>,
    /// What is searched, as the YAML has it.
    pub source: String,
    /// Where it is kept.
    pub store: String,
    /// How it was made.
    pub made: Option<String>,
    /// Sources it holds.
    pub sources: usize,
    /// Passages it holds.
    pub passages: usize,
    /// Bytes on disk, where the store tells.
    pub bytes: Option<u64>,
    /// Sources that it lacks.
    pub added: usize,
    /// Sources that are others now.
    pub changed: usize,
    /// Sources that are gone.
    pub removed: usize,
}

/// An index that was copied.
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

/// Why something can't be done with an index.
#[derive(Debug)]
#[non_exhaustive]
pub struct IndexError {
    /// What is to be done about it.
    pub kind: IndexErrorKind,
    /// What is wrong; lower case, no full stop.
    pub message: String,
    /// The next step, where there is one.
    pub hint: Option<String>,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for IndexError {}

/// What is to be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexErrorKind {
    /// The YAML or the command line must be changed.
    Config,
    /// The index was made in another way: it must be built anew.
    Mixed,
    /// A server, file or machine failed.
    Execution,
    /// It was stopped; what is finished is kept.
    Interrupted,
}

impl IndexError {
    pub(crate) fn new(kind: IndexErrorKind, message: impl fmt::Display) -> Self {
        let text = message.to_string();
        let (message, hint) = match text.split_once("\n\nhint: ") {
            Some((message, hint)) => (message.to_owned(), Some(hint.trim_end().to_owned())),
            None => (text, None),
        };
        // Every command has its own way to build an index anew.
        let hint = hint.filter(|_| kind != IndexErrorKind::Mixed);
        Self { kind, message, hint }
    }

    pub(crate) fn config(message: impl fmt::Display) -> Self {
        Self::new(IndexErrorKind::Config, message)
    }

    /// What went wrong with the index of a tool.
    pub(crate) fn of(tool: &str, error: &RetrievalError) -> Self {
        let kind = match error {
            RetrievalError::Setup(_) | RetrievalError::Query(_) => IndexErrorKind::Config,
            RetrievalError::Mixed { .. } => IndexErrorKind::Mixed,
            RetrievalError::Cancelled => return Self::new(IndexErrorKind::Interrupted, "interrupted"),
            _ => IndexErrorKind::Execution,
        };
        Self::new(kind, format!("index `{tool}`: {error}"))
    }
}

/// How an index stands, in words.
pub(super) fn stands(plan: &IngestPlan, stats: &IndexStats) -> String {
    let holds = format!(
        "{}, {}",
        count(stats.sources, "source"),
        count(stats.passages, "passage")
    );
    let parts = [
        (plan.added.len(), "new"),
        (plan.changed.len(), "changed"),
        (plan.removed.len(), "gone"),
        (plan.failed.len(), "unreadable"),
    ];
    let differ: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if differ.is_empty() {
        holds
    } else {
        format!("{holds}; of what is there now, {}", differ.join(", "))
    }
}
