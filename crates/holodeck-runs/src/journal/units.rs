//! The units of a run: the trials of its cases, one case after the other.

use std::{collections::HashMap, ops::Range};

use holodeck_model::{CaseId, UnitKey};

use crate::trials::CaseTrials;

/// Where the units of each planned case are. Without repeated cases, it takes no memory.
#[derive(Debug, Default)]
pub(super) struct Units {
    cases: usize,
    /// The first unit of each case, then the number of units; empty if each case runs once.
    starts: Vec<usize>,
}

impl Units {
    /// The units of `cases` cases. `trials` is empty if each runs once.
    pub(super) fn new(cases: usize, trials: &[CaseTrials]) -> Self {
        let mut starts = Vec::new();
        if !trials.is_empty() {
            let mut start = 0;
            starts.reserve_exact(trials.len() + 1);
            starts.push(start);
            for trials in trials {
                start += trials.count as usize;
                starts.push(start);
            }
        }
        Self { cases, starts }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.last().copied().unwrap_or(self.cases)
    }

    /// The units of the case at this place in the plan.
    pub(super) fn of(&self, case: usize) -> Range<usize> {
        if self.starts.is_empty() {
            return case..case + usize::from(case < self.cases);
        }
        match (self.starts.get(case), self.starts.get(case + 1)) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        }
    }

    /// The unit with this key, if the run has it.
    pub(super) fn find(&self, cases: &HashMap<CaseId, usize>, key: UnitKey) -> Option<usize> {
        let mut units = self.of(*cases.get(&key.case)?);
        units.nth(usize::try_from(key.trial).ok()?)
    }

    /// The case of a unit, and which of its trials the unit is.
    pub(super) fn case_of(&self, unit: usize) -> (usize, usize) {
        if self.starts.is_empty() {
            return (unit, 0);
        }
        let case = self
            .starts
            .partition_point(|&start| start <= unit)
            .saturating_sub(1);
        let start = self.starts.get(case).copied().unwrap_or_default();
        (case, unit - start)
    }
}
