//! Metrics that a model judges.
//!
//! A metric asks its questions one after the other and computes the score from the answers; the sender of the questions,
//! their records and their cost belong to the [`Judge`](crate::Judge). An answer that is missing or does not fit is an
//! error, never a score.

mod geval;
mod goal;
mod jury;
pub(crate) mod material;
mod questions;
mod rag;
mod ready_made;
mod template;
mod transcript;

use async_trait::async_trait;
use holodeck_model::MetricConfig;

use crate::{EvalInput, InputText, MetricError, Score, config_problem::ConfigProblem};

pub use geval::derive_steps;
pub(crate) use jury::Jury;
use questions::Questions;

/// Version of the built-in prompts. Scores of different versions are not comparable.
pub const JUDGE_PROMPTS: u32 = 2;

/// A metric, as one judge computes it.
#[async_trait]
pub(crate) trait JudgedMetric: Send + Sync {
    /// The texts of this input that a judge sees.
    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText>;

    /// Asks the judge and computes the score.
    async fn judge(&self, input: &EvalInput<'_>, questions: &Questions<'_>) -> Result<Score, MetricError>;
}

/// The subject of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// One answer.
    Answer,
    /// A whole conversation.
    Conversation,
}

/// Prepares a judged metric; the error says what is wrong with its configuration.
pub(crate) fn prepare(
    config: &MetricConfig,
    subject: Subject,
) -> Result<Box<dyn JudgedMetric>, ConfigProblem> {
    Ok(match config {
        MetricConfig::Standard(metric) => Box::new(ready_made::ReadyMade::new(metric)?),
        MetricConfig::Geval(metric) => Box::new(geval::Geval::new(metric, subject)?),
        MetricConfig::Rag(metric) => Box::new(rag::Rag::new(metric)),
        MetricConfig::GoalSuccess(metric) => Box::new(goal::GoalSuccess::new(metric)),
        MetricConfig::Code(_) => return Err("a code grader is not judged".to_owned().into()),
    })
}
