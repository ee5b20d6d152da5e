//! Trials: how often each case runs, and its verdict over all of them.

use std::collections::{BTreeMap, BTreeSet};

use holodeck_eval::stats::{Interval, pass_at_k, pass_hat_k, wilson};
use holodeck_model::{CaseDeciders, CaseState, ExecutionState, ResolvedAgent, Spent, TrialResult};
use serde::{Deserialize, Serialize};

use crate::RunFlags;

/// A case may not run more often.
pub const MAX_TRIALS: u32 = 10_000;

/// The confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// How often a case runs, and how many of its trials must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
#[allow(clippy::exhaustive_structs, reason = "both numbers are needed")]
pub struct CaseTrials {
    /// How often it runs, at least once.
    pub count: u32,
    /// How many trials must pass, at least one.
    pub min_passes: u32,
}

impl CaseTrials {
    /// A case that runs once and must pass.
    pub const ONCE: Self = Self {
        count: 1,
        min_passes: 1,
    };

    /// The trials of the case at `index`: a flag, else the field of the case, else that of `execution`. `count` replaces
    /// the number of trials.
    pub fn of(agent: &ResolvedAgent, index: usize, flags: &RunFlags, count: Option<u32>) -> Self {
        let case = agent.config.test_cases.get(index);
        let own = |field: fn(&holodeck_model::TestCase) -> Option<u32>| case.as_deref().and_then(field);
        let count = count
            .or(flags.trials)
            .or_else(|| own(|case| case.trials))
            .unwrap_or(agent.execution.trials.value.get());
        let min_passes = flags
            .min_passes
            .or_else(|| own(|case| case.min_passes))
            .or_else(|| agent.execution.min_passes.value.map(u32::from))
            .unwrap_or(count);
        Self { count, min_passes }
    }

    /// Whether these numbers can be used.
    pub fn is_valid(self) -> bool {
        (1..=MAX_TRIALS).contains(&self.count) && self.min_passes >= 1
    }
}

impl From<(u32, u32)> for CaseTrials {
    fn from((count, min_passes): (u32, u32)) -> Self {
        Self { count, min_passes }
    }
}

impl From<CaseTrials> for (u32, u32) {
    fn from(trials: CaseTrials) -> Self {
        (trials.count, trials.min_passes)
    }
}

/// How the trials of a case ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrialCounts {
    /// How many passed.
    pub(crate) passed: u32,
    /// How many failed.
    pub(crate) failed: u32,
    /// How many ended with an error.
    pub(crate) errors: u32,
    /// How many check nothing.
    pub(crate) unchecked: u32,
}

impl TrialCounts {
    /// Counts a trial that ended like this.
    pub(crate) fn add(&mut self, state: CaseState) {
        match state {
            CaseState::Passed => self.passed += 1,
            // No trial is flaky by itself.
            CaseState::Failed | CaseState::Flaky => self.failed += 1,
            CaseState::Error => self.errors += 1,
            CaseState::Unchecked => self.unchecked += 1,
        }
    }

    /// The verdict on a case: passed if `min_passes` trials passed; failed or flaky if it cannot be reached even if
    /// every error had been a pass; otherwise an error.
    pub(crate) fn verdict(self, min_passes: u32) -> CaseState {
        let Self {
            passed,
            failed,
            errors,
            ..
        } = self;
        if passed >= min_passes.max(1) {
            CaseState::Passed
        } else if passed + failed + errors == 0 {
            CaseState::Unchecked
        } else if passed + errors < min_passes && (failed > 0 || errors == 0) {
            if passed > 0 && failed > 0 {
                CaseState::Flaky
            } else {
                CaseState::Failed
            }
        } else {
            CaseState::Error
        }
    }
}

/// The trials of a case that ran several times.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trials {
    /// The verdict over all trials.
    pub state: CaseState,
    /// How many trials must pass.
    pub min_passes: u32,
    /// How many passed.
    pub passed: u32,
    /// How many failed.
    pub failed: u32,
    /// How many ended with an error.
    pub errors: u32,
    /// How many check nothing.
    pub unchecked: u32,
    /// Which of them the report shows, from 0.
    pub shown: u32,
    /// Every trial, in order.
    pub results: Vec<TrialResult>,
    /// Everything that decides the verdict on each of them; unknown if they differ.
    pub(crate) deciders: CaseDeciders,
    /// The worst execution of the trials with the state of the verdict.
    pub(crate) execution: ExecutionState,
    /// The cost of the agent.
    pub(crate) spent: Spent,
    pub(crate) judging: Spent,
    pub(crate) user_used: Spent,
    pub(crate) elapsed_ms: u64,
    pub(crate) truncations: BTreeSet<String>,
    pub(crate) is_redacted: bool,
    pub(crate) report_k: Vec<u32>,
}

impl Trials {
    /// The number of trials with a verdict.
    pub fn counted(&self) -> u32 {
        self.passed + self.failed
    }

    /// The 95 % Wilson interval of the share of passed trials; `None` without a verdict.
    pub fn interval(&self) -> Option<Interval> {
        wilson(self.passed.into(), self.counted().into(), CONFIDENCE)
    }

    /// pass@k: the estimated probability that at least one of `k` attempts passes, by `k`.
    pub fn pass_at_k(&self) -> BTreeMap<u32, f64> {
        self.by_k(pass_at_k)
    }

    /// pass^k: the estimated probability that all of `k` attempts pass, by `k`.
    pub fn pass_hat_k(&self) -> BTreeMap<u32, f64> {
        self.by_k(pass_hat_k)
    }

    fn by_k(&self, estimate: fn(u64, u64, u64) -> Option<f64>) -> BTreeMap<u32, f64> {
        let counted = self.counted();
        let wanted = [1, counted].into_iter().chain(self.report_k.iter().copied());
        wanted
            .filter(|k| (1..=counted).contains(k))
            .filter_map(|k| Some((k, estimate(counted.into(), self.passed.into(), k.into())?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
