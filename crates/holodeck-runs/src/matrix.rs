//! The runs of a matrix: one for each combination of its values.

use std::path::Path;

use holodeck_eval::stats::wilson;
use holodeck_model::{Combination, ReportSummary};
use jiff::Timestamp;

use crate::{AgentRuns, Journal, JournalError, StoreError, StoredCombination, store::new_run_id};

/// The identity of a new group of runs.
pub fn new_group() -> String {
    new_run_id(Timestamp::now())
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

/// The other runs of the group of a run of the agent, in the order of the matrix, as their journals show them.
pub fn siblings(runs: &AgentRuns, own: &StoredCombination) -> Result<Vec<Sibling>, SiblingsError> {
    let members = runs.members_of(own)?;
    let others = own.planned.iter().filter(|values| **values != own.values);
    let states = others.map(|values| {
        let run = members.iter().find(|(other, _)| other == values);
        let state = match run {
            None => SiblingState::NotRun,
            Some((_, run_id)) => state_of(run_id, &runs.store().journal_path(run_id))?,
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
