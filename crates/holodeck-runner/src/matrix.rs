//! The runs of a matrix: one for each combination of its values, found by the first lines of their journals.

use std::{
    io::BufRead as _,
    path::{Path, PathBuf},
};

use holodeck_eval::stats::wilson;
use holodeck_model::{Combination, ReportSummary};
use jiff::Timestamp;

use crate::{Journal, JournalError, RunStore, StoreError, StoredCombination, store::new_run_id};

/// The identity of a new group of runs.
pub fn new_group() -> String {
    new_run_id(Timestamp::now())
}

/// The parts of a journal's first line that are needed to find it.
#[derive(Default, serde::Deserialize)]
struct Sketch {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    combination: Option<StoredCombination>,
    #[serde(default)]
    regrades: Option<String>,
    #[serde(default)]
    merged_from: Vec<String>,
}

fn sketch(journal: &Path) -> std::io::Result<Sketch> {
    let mut line = Vec::new();
    std::io::BufReader::new(std::fs::File::open(journal)?).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// The combination of the run in this journal. Reads only its first line; a journal without a valid one has no
/// combination, and opening it reports the error.
pub fn stored_combination(journal: &Path) -> Option<StoredCombination> {
    sketch(journal).ok()?.combination
}

/// The journals of the runs with this combination, newest first; without one, of those that are not of a matrix.
pub fn journals_of(store: &RunStore, combination: Option<&Combination>) -> Result<Vec<PathBuf>, StoreError> {
    let mut journals = store.journals()?;
    journals.retain(|journal| {
        let stored = stored_combination(journal);
        stored.as_ref().map(|stored| &stored.values) == combination
    });
    Ok(journals)
}

/// A run that the same command started, or was to start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a pair of values")]
pub struct Sibling {
    /// Its combination.
    pub values: Combination,
    /// How far it is.
    pub state: SiblingState,
}

/// How far a run of a matrix is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a run cannot be in another state")]
pub enum SiblingState {
    /// It was never started.
    NotRun,
    /// It did not run to its end.
    Unfinished {
        /// The run.
        run_id: String,
    },
    /// Cases did not pass.
    NotPassed {
        /// The run.
        run_id: String,
        /// How many.
        cases: usize,
    },
    /// Every case passed or checks nothing.
    Passed,
}

/// The other runs of the group of a run, in the order of the matrix, as their journals show them.
pub fn siblings(store: &RunStore, own: &StoredCombination) -> Result<Vec<Sibling>, SiblingsError> {
    let mut runs = Vec::new();
    for path in store.journals()? {
        // A damaged journal cannot be one of a run that ended.
        let sketch = sketch(&path).unwrap_or_default();
        let is_own_group = |stored: &StoredCombination| stored.group == own.group;
        if sketch.regrades.is_none()
            && sketch.merged_from.is_empty()
            && let Some(stored) = sketch.combination.filter(is_own_group)
        {
            runs.push((stored.values, sketch.run_id, path));
        }
    }
    let others = own.planned.iter().filter(|values| **values != own.values);
    let states = others.map(|values| {
        let run = runs.iter().find(|(other, ..)| other == values);
        let state = match run {
            None => SiblingState::NotRun,
            Some((_, run_id, path)) => state_of(run_id, path)?,
        };
        Ok(Sibling {
            values: values.clone(),
            state,
        })
    });
    states.collect()
}

/// Why the other runs of a matrix are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiblingsError {
    /// The folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn state_of(run_id: &str, path: &Path) -> Result<SiblingState, JournalError> {
    let journal = Journal::open(path)?;
    let run_id = run_id.to_owned();
    if !journal.is_completed() {
        return Ok(SiblingState::Unfinished { run_id });
    }
    Ok(match journal.not_passed()?.len() {
        0 => SiblingState::Passed,
        cases => SiblingState::NotPassed { run_id, cases },
    })
}

/// The 95 % Wilson interval of the share of checked cases that passed, as fractions; `None` if there is no share.
pub fn pass_rate_interval(summary: &ReportSummary) -> Option<(f64, f64)> {
    let checked = summary.total_tests.checked_sub(summary.unchecked)?;
    if summary.not_run > 0 {
        return None;
    }
    let interval = wilson(summary.passed as u64, checked as u64, 0.95)?;
    Some((interval.low, interval.high))
}
