//! Collects what the summary of a run shows.

use std::sync::Arc;

use holodeck::{
    model::{CaseState, ExecutionState, MetricResult},
    reports::explain,
    runner::{RunEvent, RunSink},
    runs::CaseReport,
};

/// Failures shown again at the end; the report has all of them.
pub(super) const MAX_FAILURES: usize = 20;

/// More hints than this are not read.
const MAX_HINTS: usize = 3;

/// The cases that the summary shows. Its size does not grow with their number.
#[derive(Debug, Default)]
pub(crate) struct Highlights {
    /// The first cases that did not pass.
    pub(crate) failures: Vec<Arc<CaseReport>>,
    /// How many more did not pass.
    pub(crate) more_failures: usize,
    /// The first case that checks nothing.
    pub(crate) unchecked: Option<String>,
    /// Its metrics, which have scores but no threshold.
    pub(crate) ungated: Vec<String>,
    /// Hints from the reasons of failures.
    pub(crate) hints: Vec<String>,
    /// Cases that could not be executed.
    pub(crate) not_executed: usize,
    /// Whether the error of a case is that of a judge.
    pub(crate) judge_failed: bool,
    /// Cases to finish.
    pub(crate) planned: usize,
}

impl Highlights {
    fn add_hints(&mut self, case: &CaseReport) {
        if self.hints.len() >= MAX_HINTS {
            return;
        }
        let reasons = explain(case)
            .into_iter()
            .flat_map(|explanation| explanation.reasons);
        for hint in reasons.filter_map(|reason| reason.hint) {
            if self.hints.len() < MAX_HINTS && !self.hints.contains(&hint) {
                self.hints.push(hint);
            }
        }
    }
}

/// The metrics of a case that have a score and no threshold, each once.
fn ungated(case: &CaseReport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let of_trials: Vec<_> = case.metrics_of_trials().collect();
    let metrics = of_trials.iter().flat_map(|metrics| metrics.iter());
    for metric in metrics.chain(case.conversation_metrics()) {
        if metric.passed.is_none() && metric.score.is_some() && !names.contains(&metric.metric_name) {
            names.push(metric.metric_name.clone());
        }
    }
    names
}

fn judge_failed(case: &CaseReport) -> bool {
    let is_judge_error = |metric: &MetricResult| metric.error.is_some() && metric.identity.judge.is_some();
    let mut trials = case.metrics_of_trials();
    trials.any(|metrics| metrics.iter().any(is_judge_error))
        || case.conversation_metrics().iter().any(is_judge_error)
}

impl RunSink for Highlights {
    fn on(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { total, .. } => self.planned = *total,
            RunEvent::CaseFinished { case, .. } => match case.state() {
                CaseState::Passed => {}
                CaseState::Unchecked => {
                    if self.unchecked.is_none() {
                        self.unchecked = Some(case.label());
                        self.ungated = ungated(case);
                    }
                }
                CaseState::Failed | CaseState::Flaky | CaseState::Error => {
                    if matches!(case.execution(), ExecutionState::Error | ExecutionState::Skipped) {
                        self.not_executed += 1;
                    }
                    self.judge_failed |= judge_failed(case);
                    self.add_hints(case);
                    if self.failures.len() < MAX_FAILURES {
                        self.failures.push(Arc::clone(case));
                    } else {
                        self.more_failures += 1;
                    }
                }
            },
            _ => {}
        }
    }
}
