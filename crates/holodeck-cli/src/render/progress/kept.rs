use std::sync::Arc;

use holodeck::{
    model::{CaseState, ExecutionState, TestResult},
    runner::{RunEvent, RunSink, explain},
};

/// Failures to tell once more at the end; all of them are in the report.
const MOST: usize = 20;

/// More advice than this is not taken.
const MOST_HINTS: usize = 3;

/// What the end of a run tells of its cases. Does not grow with their number.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The first cases that did not pass.
    pub(crate) failures: Vec<Arc<TestResult>>,
    /// How many more there are.
    pub(crate) more_failures: usize,
    /// The first case that checks nothing.
    pub(crate) unchecked: Option<String>,
    /// The next actions that reasons told.
    pub(crate) hints: Vec<String>,
    /// Cases that could not be carried out.
    pub(crate) not_carried_out: usize,
    /// Cases to finish.
    pub(crate) planned: usize,
}

impl Kept {
    fn keep_hints(&mut self, result: &TestResult) {
        if self.hints.len() >= MOST_HINTS {
            return;
        }
        let reasons = explain(result)
            .into_iter()
            .flat_map(|explanation| explanation.reasons);
        for hint in reasons.filter_map(|reason| reason.hint) {
            if self.hints.len() < MOST_HINTS && !self.hints.contains(&hint) {
                self.hints.push(hint);
            }
        }
    }
}

impl RunSink for Kept {
    fn on(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { total, .. } => self.planned = *total,
            RunEvent::CaseFinished { result, .. } => match result.state {
                CaseState::Passed => {}
                CaseState::Unchecked => {
                    self.unchecked.get_or_insert_with(|| result.label());
                }
                CaseState::Failed | CaseState::Error => {
                    if matches!(result.execution, ExecutionState::Error | ExecutionState::Skipped) {
                        self.not_carried_out += 1;
                    }
                    self.keep_hints(result);
                    if self.failures.len() < MOST {
                        self.failures.push(Arc::clone(result));
                    } else {
                        self.more_failures += 1;
                    }
                }
            },
            _ => {}
        }
    }
}
