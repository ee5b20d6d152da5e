//! Reads a graded case from the journal: its trials are folded into one report.

use std::collections::BTreeSet;

use holodeck_model::{
    CaseDeciders, CaseState, ExecutionState, Failure, Redactor, ResolvedAgent, Spent, TrialResult,
};

use crate::{
    CaseReport, Grade, Journal, JournalError, Trials, UnitRecord, record::worse_execution,
    trials::TrialCounts,
};

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
pub fn read_case(
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
pub fn fold_case(
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
