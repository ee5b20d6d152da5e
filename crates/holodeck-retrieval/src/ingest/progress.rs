//! The events of an ingest and their receiver.

use super::{IngestPlan, SourceFailure};

/// Events of an ingest, as they happen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum IngestEvent {
    /// The plan is known.
    Planned(IngestPlan),
    /// Sources that no longer exist were removed.
    Removed(Vec<String>),
    /// A source was read and split.
    Read {
        /// Its name.
        source: String,
        /// Number of its pieces.
        pieces: usize,
        /// Its position among the sources to read, counted from 1.
        number: usize,
        /// Number of sources to read.
        of: usize,
        /// Notices for the user.
        notes: Vec<String>,
    },
    /// Pieces were embedded.
    Embedded {
        /// Number of pieces so far.
        pieces: usize,
    },
    /// Sources were committed to the index.
    Stored {
        /// Their names.
        sources: Vec<String>,
        /// Number of finished sources, including failures.
        done: usize,
        /// Number of sources to read.
        of: usize,
    },
    /// A source could not be ingested.
    Failed(SourceFailure),
}

/// Receives [`IngestEvent`]s.
pub trait IngestProgress: Send + Sync {
    /// Called for each event, in order; must return quickly.
    fn event(&self, event: IngestEvent);
}

impl<F: Fn(IngestEvent) + Send + Sync> IngestProgress for F {
    fn event(&self, event: IngestEvent) {
        self(event);
    }
}
