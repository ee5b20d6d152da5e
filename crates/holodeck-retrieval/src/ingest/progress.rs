use super::{IngestPlan, SourceFailure};

/// What happens during an ingest, as it happens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum IngestEvent {
    /// What will be done.
    Planned(IngestPlan),
    /// Sources that are gone were forgotten.
    Removed(Vec<String>),
    /// A source was read and cut up.
    Read {
        /// Its name.
        source: String,
        /// How many pieces it has.
        pieces: usize,
        /// Which it is of those to be read, counted from 1.
        number: usize,
        /// How many are to be read.
        of: usize,
        /// What a person should know of it.
        notes: Vec<String>,
    },
    /// Pieces were embedded.
    Embedded {
        /// How many so far.
        pieces: usize,
    },
    /// Sources are in the index and stay there whatever happens.
    Stored {
        /// Their names.
        sources: Vec<String>,
        /// How many of those to be read are done, failures included.
        done: usize,
        /// How many are to be read.
        of: usize,
    },
    /// A source could not be taken in.
    Failed(SourceFailure),
}

/// Hears of [`IngestEvent`]s.
pub trait IngestProgress: Send + Sync {
    /// Called for each, in order; should be quick.
    fn event(&self, event: IngestEvent);
}

impl<F: Fn(IngestEvent) + Send + Sync> IngestProgress for F {
    fn event(&self, event: IngestEvent) {
        self(event);
    }
}
