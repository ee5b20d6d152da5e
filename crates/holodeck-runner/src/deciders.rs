//! Compares stored verdicts with what decides about their cases now: what is expected, who judges, which program grades.
//!
//! Resume, merge and `--failed` ask here; comparisons of two stored runs need no agent. It must not grade.

use std::{collections::BTreeSet, sync::Arc};

use holodeck_model::{
    CaseDeciders, CaseState, CheckIdentities, Decider, Difference, ResolvedAgent, TRIALS_RULE,
    describe_differences,
};

use crate::{PlanError, grade::case_deciders};
use holodeck_runs::{CaseTrials, Grade, Journal, JournalError, RunFlags};

/// The agent and its checks as they are now, which stored verdicts are compared with.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CurrentDeciders {
    /// The agent, with its cases.
    pub agent: Arc<ResolvedAgent>,
    /// The identities of its checks.
    pub checks: Arc<CheckIdentities>,
}

/// The differences between stored verdicts and what decides about their cases now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// By name.
    pub(crate) differences: BTreeSet<Difference>,
    /// Whether a verdict does not record what decided it.
    pub(crate) has_unknown: bool,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.differences.is_empty() && !self.has_unknown
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.differences.extend(more.differences);
        self.has_unknown |= more.has_unknown;
    }

    /// `the judge of "Kind", the expectation "contains"`.
    pub(crate) fn describe(&self) -> String {
        let names = describe_differences(&self.differences);
        match (names.is_empty(), self.has_unknown) {
            (_, false) => names,
            (true, true) => UNKNOWN.to_owned(),
            (false, true) => format!("{names}, {UNKNOWN}"),
        }
    }
}

/// Names what an earlier version did not record.
const UNKNOWN: &str = "what decided verdicts of an earlier version";

impl CurrentDeciders {
    /// The deciders of the case at `index`.
    pub(crate) fn of(&self, index: usize) -> Option<CaseDeciders> {
        let case = self.agent.config.test_cases.get(index)?;
        let on_truncated = self.agent.execution.on_truncated.value;
        Some(case_deciders(&self.checks, &case, on_truncated))
    }

    /// How many trials of the case at `index` must pass, of as many as the run has.
    pub(crate) fn trials(&self, index: usize, flags: &RunFlags, count: u32) -> CaseTrials {
        CaseTrials::of(&self.agent, index, flags, Some(count))
    }

    /// The changes since the verdicts on the case at `place` of a run, which is at `index` in the file. An
    /// error of grading itself has no deciders and is no pass.
    pub(crate) fn changes(
        &self,
        journal: &Journal,
        place: usize,
        index: usize,
        flags: &RunFlags,
    ) -> Result<Changes, JournalError> {
        let mut changes = Changes::default();
        let Some(now) = self.of(index) else {
            return Ok(changes);
        };
        let stored = journal.trials_of(place);
        let trials = self.trials(index, flags, stored.count);
        let now = now.with_trials(trials.count, trials.min_passes);
        for unit in journal.units_of(place) {
            let Some(grade) = journal.verdict(unit).transpose()? else {
                continue;
            };
            let min_passes = grade.min_passes.unwrap_or(stored.min_passes);
            let is_crash = grade.deciders.is_unknown() && grade.state == CaseState::Error;
            let before = grade.deciders.with_trials(stored.count, min_passes);
            match before.differences(&now) {
                Some(differences) => changes.differences.extend(differences),
                None => changes.has_unknown |= !is_crash,
            }
        }
        Ok(changes)
    }

    /// Prepares the verdicts of a run that is resumed: those that something else decides now are given again from the
    /// stored answers. Returns what changed. Another number of passes needs no new grade, so it is entered at once.
    pub(crate) fn renew(&self, journal: &mut Journal, indices: &[usize]) -> Result<Changes, RenewError> {
        let flags = journal.header().flags.clone();
        let mut all = Changes::default();
        for (place, &index) in indices.iter().enumerate() {
            let changes = self.changes(journal, place, index, &flags)?;
            let is_rule = |difference: &Difference| {
                difference.decider == Decider::Expectation && difference.part == TRIALS_RULE
            };
            if changes.differences.iter().any(is_rule) {
                let trials = self.trials(index, &flags, journal.trials_of(place).count);
                self.check_trials(index, trials)?;
                for unit in journal.units_of(place) {
                    if let Some(grade) = journal.verdict(unit).transpose()? {
                        let min_passes = Some(trials.min_passes);
                        journal.grade(unit, &Grade { min_passes, ..grade })?;
                    }
                }
            }
            all.add(changes);
        }
        Ok(all)
    }

    fn check_trials(&self, index: usize, trials: CaseTrials) -> Result<(), PlanError> {
        if trials.is_valid() && trials.min_passes <= trials.count {
            return Ok(());
        }
        let name = self.agent.config.test_cases.name(index);
        Err(PlanError::Trials {
            label: holodeck_model::case_label(name, index),
            trials: trials.count,
            min_passes: trials.min_passes,
        })
    }
}

/// Why the verdicts of a run cannot be renewed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenewError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Plan(#[from] PlanError),
}
