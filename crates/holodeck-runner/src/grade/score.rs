//! The score of a case: the mean of the scores of its metrics by their weights, and the verdict of `min_score`.

use holodeck_model::{CaseState, ExecutionState, Failure, FailureKind, MetricConfig, MetricResult, TestCase};
use holodeck_runs::{Grade, TurnGrade, UnitRecord, worse_state};
use holodeck_turn::TurnRecord;

/// Two sums of the same scores in another order may differ by this much.
const ROUNDING: f64 = 1e-9;

/// How much a metric counts.
fn weight(metric: &MetricResult) -> f64 {
    metric.weight.unwrap_or(MetricConfig::WEIGHT)
}

/// Whether a metric is a part of the score.
pub(super) fn counts(metric: &MetricResult) -> bool {
    weight(metric) > 0.0
}

/// The mean of the scores; `None` if one that counts is missing, or if none counts. A metric that was skipped because a
/// gate before it was missed has score 0.
fn score(grade: &Grade) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for metric in grade.metrics().filter(|metric| counts(metric)) {
        let score = metric.score.or_else(|| metric.skipped.then_some(0.0));
        sum += weight(metric) * score?;
        weights += weight(metric);
    }
    // A weight may be endless.
    (weights > 0.0 && weights.is_finite()).then(|| sum / weights)
}

/// Adds the score of a case that weighs its metrics, and the verdict on it.
pub(super) fn add_score(mut grade: Grade, unit: &UnitRecord, case: &TestCase) -> Grade {
    let is_weighed = grade.metrics().any(|metric| metric.weight.is_some());
    if case.min_score.is_none() && !is_weighed {
        return grade;
    }
    grade.score = score(&grade);
    let Some(min_score) = case.min_score else {
        return grade;
    };
    let mut turns = unit.turns.iter().zip(&grade.turns);
    let is_unanswered = |(turn, grade): (&TurnRecord, &TurnGrade)| {
        turn.state != ExecutionState::Completed && grade.metrics.is_empty()
    };
    if unit.execution() == ExecutionState::Error || turns.any(is_unanswered) {
        // Its state says more than a score of some of its turns.
        return grade;
    }
    let state = match grade.score {
        Some(score) if score + ROUNDING >= min_score => CaseState::Passed,
        Some(score) => {
            let text = format!("the score {score:.3} is below `min_score` {min_score}");
            grade.score_failure = Some(Failure::of_field("min_score", text));
            CaseState::Failed
        }
        None if grade
            .metrics()
            .any(|metric| counts(metric) && metric.score.is_none()) =>
        {
            CaseState::Error
        }
        None => {
            let text = "there is no score to compare with `min_score`: no metric counts";
            grade.score_failure = Some(Failure {
                kind: FailureKind::Checks,
                ..Failure::of_field("min_score", text)
            });
            CaseState::Error
        }
    };
    grade.state = worse_state(grade.state, state);
    grade
}
