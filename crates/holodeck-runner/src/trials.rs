//! Trials: how often each case runs, and its verdict over all of them.

use std::collections::{BTreeMap, BTreeSet};

use holodeck_eval::stats::{Interval, pass_at_k, pass_hat_k, wilson};
use holodeck_model::{CaseDeciders, CaseState, ExecutionState, Failure, ResolvedAgent, Spent, TrialResult};
use serde::{Deserialize, Serialize};

use crate::{
    CaseReport, Journal, JournalError, PlanError, RunFlags,
    record::{Grade, UnitRecord, worse_execution},
};
use holodeck_model::{Redactor, case_label};

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
    pub(crate) fn of(agent: &ResolvedAgent, index: usize, flags: &RunFlags, count: Option<u32>) -> Self {
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
    pub(crate) fn is_valid(self) -> bool {
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

/// The trials of the cases at these places in the file; empty if each runs once.
pub fn plan_trials(
    agent: &ResolvedAgent,
    indices: &[usize],
    flags: &RunFlags,
) -> Result<Vec<CaseTrials>, PlanError> {
    let once = indices
        .iter()
        .all(|&index| CaseTrials::of(agent, index, flags, None) == CaseTrials::ONCE);
    if once {
        return Ok(Vec::new());
    }
    let trials = indices.iter().map(|&index| {
        let trials = CaseTrials::of(agent, index, flags, None);
        if trials.is_valid() && trials.min_passes <= trials.count {
            return Ok(trials);
        }
        let name = agent.config.test_cases.name(index);
        Err(PlanError::Trials {
            label: case_label(name, index),
            trials: trials.count,
            min_passes: trials.min_passes,
        })
    });
    trials.collect()
}

/// How the trials of a case ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrialCounts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) errors: u32,
    pub(crate) unchecked: u32,
}

impl TrialCounts {
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
    report_k: Vec<u32>,
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

/// Folds the trials of a case into its report.
struct TrialFold {
    /// With the current trial.
    case: CaseReport,
    counts: TrialCounts,
    /// The first trial of each state.
    firsts: Vec<(u32, UnitRecord, Grade)>,
    /// The worst execution of each state.
    executions: Vec<(CaseState, ExecutionState)>,
    sums: Trials,
}

impl TrialFold {
    fn new(case: CaseReport, min_passes: u32, report_k: &[u32]) -> Self {
        let sums = Trials {
            state: CaseState::Unchecked,
            min_passes,
            passed: 0,
            failed: 0,
            errors: 0,
            unchecked: 0,
            shown: 0,
            results: Vec::new(),
            deciders: case.grade.deciders.clone(),
            execution: ExecutionState::Completed,
            spent: Spent::default(),
            judging: Spent::default(),
            user_used: Spent::default(),
            elapsed_ms: 0,
            truncations: BTreeSet::new(),
            is_redacted: false,
            report_k: report_k.to_vec(),
        };
        let mut fold = Self {
            case,
            counts: TrialCounts::default(),
            firsts: Vec::new(),
            executions: Vec::new(),
            sums,
        };
        fold.count();
        fold
    }

    fn add(&mut self, unit: UnitRecord, grade: Grade) {
        self.case.unit = unit;
        self.case.grade = grade;
        self.count();
    }

    /// Counts the current trial.
    fn count(&mut self) {
        let Self { case, sums, .. } = self;
        let state = case.grade.state;
        let trial = u32::try_from(sums.results.len()).unwrap_or(u32::MAX);
        self.counts.add(state);
        if case.grade.deciders != sums.deciders {
            sums.deciders = CaseDeciders::default();
        }
        sums.spent += case.unit.spent();
        sums.judging += case.grade.judging.unwrap_or_default();
        let by_user = case.unit.user.as_ref().and_then(|user| user.used);
        sums.user_used += by_user.unwrap_or_default();
        sums.elapsed_ms += case.elapsed_ms();
        sums.truncations.append(&mut case.truncations());
        sums.is_redacted |= case.is_redacted();
        let is_kept = trial == 0 || state != CaseState::Passed;
        sums.results.push(TrialResult {
            trial,
            state,
            execution: case.execution(),
            errors: case.failures().iter().map(Failure::line).collect(),
            agent_response: case.answer().filter(|_| is_kept).map(ToOwned::to_owned),
            metric_results: case.metrics().into_owned(),
            ended_by: case.ended_by().map(ToOwned::to_owned),
            cost_usd: case.unit.spent().cost_usd,
            execution_time_ms: case.elapsed_ms(),
        });
        let known = self.executions.iter_mut().find(|(other, _)| *other == state);
        if let Some((_, worst)) = known {
            *worst = worse_execution(*worst, case.execution());
        } else {
            self.executions.push((state, case.execution()));
            self.firsts.push((trial, case.unit.clone(), case.grade.clone()));
        }
    }

    /// The report shows the first trial whose state is that of the case.
    fn finish(self) -> CaseReport {
        let Self {
            mut case,
            counts,
            firsts,
            executions,
            mut sums,
            ..
        } = self;
        sums.state = counts.verdict(sums.min_passes);
        (sums.passed, sums.failed) = (counts.passed, counts.failed);
        (sums.errors, sums.unchecked) = (counts.errors, counts.unchecked);
        // A partial sum would be wrong.
        let decides = |state: CaseState| state == sums.state || state.is_failed() && sums.state.is_failed();
        let execution = executions.iter().find(|(state, _)| decides(*state));
        if let Some((_, execution)) = execution {
            sums.execution = *execution;
        }
        // Without a trial of that state, as where checks were skipped in some, the first one is shown.
        let place = firsts.iter().position(|(_, _, grade)| decides(grade.state));
        if let Some((trial, unit, grade)) = firsts.into_iter().nth(place.unwrap_or_default()) {
            sums.shown = trial;
            case.unit = unit;
            case.grade = grade;
        }
        case.trials = Some(Box::new(sums));
        case
    }
}

/// The report of the planned case at `place` of a run, read from its journal; `None` if a trial has no verdict.
pub(crate) fn read_case(
    agent: &ResolvedAgent,
    journal: &Journal,
    place: usize,
    index: usize,
    redactor: &Redactor,
) -> Result<Option<CaseReport>, JournalError> {
    let report_k = &agent.execution.report_k.value;
    fold_case(journal, place, report_k, |unit, grade| {
        CaseReport::new(agent, index, unit, grade, redactor)
    })
}

/// As [`read_case`]; `report` makes the report of the first trial.
pub(crate) fn fold_case(
    journal: &Journal,
    place: usize,
    report_k: &[u32],
    report: impl Fn(UnitRecord, Grade) -> Option<CaseReport>,
) -> Result<Option<CaseReport>, JournalError> {
    let trials = journal.trials_of(place);
    let mut min_passes = trials.min_passes;
    let mut fold: Option<TrialFold> = None;
    for unit in journal.units_of(place) {
        let record = journal.unit(unit).transpose()?;
        let verdict = journal.verdict(unit).transpose()?;
        let (Some(record), Some(grade)) = (record, verdict) else {
            return Ok(None);
        };
        // The rule may have changed since the run started.
        min_passes = grade.min_passes.unwrap_or(min_passes);
        if let Some(fold) = &mut fold {
            fold.sums.min_passes = min_passes;
            fold.add(record, grade);
            continue;
        }
        let Some(case) = report(record, grade) else {
            return Ok(None);
        };
        if trials.count == 1 && min_passes == 1 {
            return Ok(Some(case));
        }
        fold = Some(TrialFold::new(case, min_passes, report_k));
    }
    Ok(fold.map(TrialFold::finish))
}

#[cfg(test)]
mod tests;
