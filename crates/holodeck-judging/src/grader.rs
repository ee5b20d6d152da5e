//! Grades answers: computes what needs no judge on the texts as they are, and asks judges and programs about the masked
//! ones.
//!
//! A judge is reached only by [`TurnGrader::judge`], which masks, so that none sees a secret.

use std::sync::Arc;

use holodeck_eval::{Asked, ConfigError, Grader, MaskedInput, MetricOutcome};
use holodeck_model::{MetricConfig, OnMasked, Redactor};

use crate::Answer;

/// The metrics of an answer or of a conversation, ready to grade any number of them.
pub struct TurnGrader {
    metrics: Grader,
    redactor: Arc<Redactor>,
}

/// The outcomes of the metrics that need no judge, in the order of all metrics.
#[derive(Clone, Debug, Default)]
pub struct Checks(Vec<Option<MetricOutcome>>);

/// Whom a grader asks about one answer, and what is known before.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Judging<'a> {
    /// The judge and the programs.
    pub asked: Asked<'a>,
    /// Outcomes of an earlier grading that are kept, in the order of all metrics.
    pub kept: &'a [Option<MetricOutcome>],
    /// Whether the gates beside the metrics were met.
    pub gates_met: bool,
}

impl Checks {
    /// Whether every gate was met.
    pub fn are_met(&self) -> bool {
        self.0.iter().flatten().all(MetricOutcome::is_met)
    }

    /// Whether nothing is left open.
    pub fn are_complete(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// The outcomes in the order of all metrics; `None` for one that asks.
    pub fn into_outcomes(self) -> Vec<Option<MetricOutcome>> {
        self.0
    }
}

impl TurnGrader {
    /// The enabled metrics of an answer. `on_masked` decides for those that do not say it themselves.
    pub fn new(
        metrics: &[MetricConfig],
        on_masked: OnMasked,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, ConfigError> {
        Ok(Self::of(Grader::new(metrics)?, metrics, on_masked, redactor))
    }

    /// As [`new`](Self::new), for metrics of whole conversations.
    pub fn for_conversation(
        metrics: &[MetricConfig],
        on_masked: OnMasked,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, ConfigError> {
        let grader = Grader::for_conversation(metrics)?;
        Ok(Self::of(grader, metrics, on_masked, redactor))
    }

    fn of(grader: Grader, metrics: &[MetricConfig], on_masked: OnMasked, redactor: &Arc<Redactor>) -> Self {
        Self {
            metrics: grader.on_masked(metrics, on_masked, redactor),
            redactor: Arc::clone(redactor),
        }
    }

    /// Whether a metric asks a model or runs a program.
    pub fn asks(&self) -> bool {
        self.metrics.asks()
    }

    /// Computes the metrics that need no judge.
    pub fn check(&self, answer: &Answer<'_>) -> Checks {
        let (calls, turns) = (answer.calls(), answer.conversation());
        Checks(self.metrics.compute(&answer.input(&calls, turns.as_deref())))
    }

    /// The outcomes where a part of the conversation is missing: each metric is an error.
    pub fn incomplete(&self, problem: &str) -> Checks {
        Checks(self.metrics.incomplete(problem).into_iter().map(Some).collect())
    }

    /// Asks about the masked answer what `checks` leaves open. Returns one outcome for each metric.
    pub async fn judge(
        &self,
        answer: &Answer<'_>,
        checks: Checks,
        judging: Judging<'_>,
    ) -> Vec<MetricOutcome> {
        let Judging {
            asked,
            kept,
            gates_met,
        } = judging;
        let (calls, turns) = (answer.calls(), answer.conversation());
        let input = answer.input(&calls, turns.as_deref());
        let masked = MaskedInput::new(input, &self.redactor, answer.masked());
        self.metrics.ask(&masked, checks.0, kept, &asked, gates_met).await
    }
}
