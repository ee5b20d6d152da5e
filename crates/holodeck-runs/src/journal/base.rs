//! The run that a regrade grades.

use holodeck_model::{CaseIdentity, match_cases};

use super::{Journal, units::Units};

/// The run that a regrade grades, which has the records.
#[derive(Debug)]
pub(super) struct BaseRun {
    pub(super) journal: Box<Journal>,
    /// The place of each case in that journal's plan.
    pub(super) places: Vec<Option<usize>>,
}

impl BaseRun {
    pub(super) fn new(journal: Journal, plan: &[CaseIdentity]) -> Self {
        Self {
            places: match_cases(&journal.header.plan, plan),
            journal: Box::new(journal),
        }
    }

    /// The same trial of the same case in the graded run.
    pub(super) fn unit_of(&self, units: &Units, unit: usize) -> Option<usize> {
        let (case, trial) = units.case_of(unit);
        let place = self.places.get(case).copied().flatten()?;
        self.journal.units_of(place).nth(trial)
    }
}
