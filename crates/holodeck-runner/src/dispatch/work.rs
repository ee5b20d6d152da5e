//! The unfinished work of a run, and why a task of it ended without a result.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::task::{Id, JoinError, JoinSet};

use crate::{
    execute::{Blocker, CaseEnd},
    grading::GradedUnit,
};
use holodeck_runs::RunEnd;

/// The unfinished work of a run.
#[derive(Default)]
pub(super) struct Work {
    pub(super) running: JoinSet<CaseEnd>,
    pub(super) grading: JoinSet<GradedUnit>,
    /// The place in the plan of each task in both sets.
    pub(super) units: HashMap<Id, usize>,
    /// Ends the resources of trials that no unit needs any more.
    pub(super) ending_trials: JoinSet<()>,
    /// Errors that will also affect other cases, by the unit that had them.
    pub(super) blockers: HashMap<usize, Blocker>,
    pub(super) to_grade: VecDeque<usize>,
    /// The units that were reported as answered and have no verdict yet.
    pub(super) answered: HashSet<usize>,
    /// How many trials of each repeated case have no verdict of this run yet.
    pub(super) trials_left: HashMap<usize, usize>,
    /// Set when a budget is used up; it takes effect after that case is reported.
    pub(super) over_budget: Option<RunEnd>,
}

impl Work {
    pub(super) fn is_done(&self) -> bool {
        self.running.is_empty() && self.grading.is_empty() && self.to_grade.is_empty()
    }
}

/// Why a task ended without its result.
pub(super) fn describe_join_error(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => describe_panic(&*panic),
        Err(_) => "the task of the case was aborted".to_owned(),
    }
}

/// The message of a panic.
pub(super) fn describe_panic(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a task panicked")
        .to_owned()
}
