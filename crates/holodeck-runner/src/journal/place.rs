//! The lines of a journal, and where they are.

use serde::{Deserialize, Serialize};

use crate::Ended;

/// Every line after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<R, G> {
    /// A unit, before grading.
    Ran(R),
    /// Its verdict.
    Graded(G),
    /// What a reader of every verdict must know; a resumed run may add to it.
    Warning(String),
    End(End),
}

/// The last line of a run that was not killed.
#[derive(Serialize, Deserialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub(super) ended: Ended,
    pub(super) at: String,
}

/// Where the lines of a unit are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) ran: Option<Written>,
    pub(super) graded: Option<Written>,
    /// Whether the line `ran` holds the verdict too.
    pub(super) graded_with_run: bool,
}

impl Place {
    pub(super) fn has_run(&self) -> bool {
        self.ran.is_some()
    }

    pub(super) fn is_graded(&self) -> bool {
        self.graded.is_some() || self.graded_with_run
    }
}

/// A line in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) offset: u64,
    pub(super) length: u32,
}
