//! Metrics of a whole conversation.

use holodeck_model::{CaseState, ExecutionState, TestCase};
use holodeck_turn::TurnRecord;

use super::{Outcomes, Subject, state};
use holodeck_runs::{Expectations, TurnGrade, UnitRecord, worse_state};

/// Why a conversation cannot be measured; `None` if every turn has an answer.
pub(super) fn missing_part(unit: &UnitRecord, case: &TestCase) -> Option<String> {
    let unanswered = |turn: &TurnRecord| turn.state != ExecutionState::Completed;
    if let Some(place) = unit.turns.iter().position(unanswered) {
        return Some(format!("turn {} has no answer", place + 1));
    }
    let expected = match case.user {
        Some(_) => 1,
        None => case.turns.len().max(1),
    };
    if unit.turns.len() < expected {
        return Some(format!("turn {} did not run", unit.turns.len() + 1));
    }
    if let Some(failure) = unit.failures.first() {
        return Some(failure.text.clone());
    }
    let ended = unit.user.as_ref().is_some_and(|user| user.ended.is_some());
    (case.user.is_some() && !ended).then(|| "it did not end".to_owned())
}

impl Subject<'_> {
    /// Adds the results of the metrics of a conversation to the verdict on what is expected of it.
    pub(super) fn add_metrics(&self, expected: Option<TurnGrade>, outcomes: Outcomes) -> TurnGrade {
        let mut grade = expected.unwrap_or_else(|| TurnGrade::bare(CaseState::Unchecked));
        match outcomes {
            Ok(outcomes) => {
                grade.metrics = self.results(outcomes);
                grade.state = worse_state(
                    grade.state,
                    state(&[], false, &grade.metrics, self.expected.by_score),
                );
            }
            Err(failure) => {
                grade.failures.push(failure);
                grade.state = worse_state(grade.state, CaseState::Error);
            }
        }
        grade
    }
}

/// The expectations that the metrics of a conversation compare with.
pub(super) fn whole_expectations(case: &TestCase) -> Expectations<'_> {
    Expectations {
        ground_truth: case.ground_truth.as_deref(),
        retrieval_context: case.retrieval_context.as_deref(),
        evaluations: &case.conversation_evaluations,
        vars: case.vars.as_ref(),
        by_score: case.min_score.is_some(),
        ..Expectations::default()
    }
}
