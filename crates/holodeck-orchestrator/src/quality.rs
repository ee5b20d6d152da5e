//! Improves an output until it is good enough, or stops with a named cause.

use std::future::Future;

use async_trait::async_trait;
use holodeck_model::{IterationRecord, TerminationReason, UsageMetadata};
use serde::Serialize;

/// An output of a loop: what the caller scores and improves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoopOutput {
    /// The text.
    pub text: String,
    /// What producing it used.
    pub usage: Option<UsageMetadata>,
    /// Whether producing it may have changed something outside.
    pub side_effects: bool,
}

/// A scorer's view of one output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Assessment {
    /// The score, 0–100; `None`, NaN or infinite: invalid, which counts as 0.
    pub score: Option<f64>,
    /// The scores of its parts.
    pub metrics: Vec<(String, f64)>,
    /// What to improve.
    pub improvements: Vec<String>,
    /// Why.
    pub reason: Option<String>,
    /// Whether the goal can't be reached.
    pub unachievable: bool,
    /// What scoring used.
    pub usage: Option<UsageMetadata>,
}

/// The final view of a loop on its returned output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QualityAssessment {
    /// The score, 0–100; absent if nothing was scored.
    pub score: Option<f64>,
    /// Whether it meets the threshold.
    pub passed: bool,
    /// The scores of its parts.
    pub metrics: Vec<(String, f64)>,
    /// What could be improved.
    pub improvements: Vec<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Everything a loop did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopReport {
    /// Why it ended.
    pub termination_reason: TerminationReason,
    /// How many outputs were scored, at least 1.
    pub iteration_count: u32,
    /// One record for each scored output.
    pub iterations: Vec<IterationRecord>,
    /// Why the scorer failed, if it did.
    pub scorer_error: Option<String>,
    /// The index of the returned output among the scored ones; `None` if nothing was scored.
    pub returned: Option<u32>,
}

/// The scorer failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct ScorerError {
    /// Why.
    pub reason: String,
}

/// No further output could be produced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct ImproveError {
    /// Why.
    pub reason: String,
}

/// Scores outputs. A closure that returns a future is one.
#[async_trait]
pub trait Scorer: Send + Sync {
    /// The assessment of `output`.
    async fn score(&self, output: &LoopOutput) -> Result<Assessment, ScorerError>;
}

/// Produces the next output. A closure that returns a future is one.
#[async_trait]
pub trait Improver: Send + Sync {
    /// A better output than `output`, which was assessed as `assessment`; `iteration` counts from 1.
    async fn improve(
        &self,
        output: &LoopOutput,
        assessment: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError>;
}

#[async_trait]
impl<F, R> Scorer for F
where
    F: Fn(LoopOutput) -> R + Send + Sync,
    R: Future<Output = Result<Assessment, ScorerError>> + Send,
{
    async fn score(&self, output: &LoopOutput) -> Result<Assessment, ScorerError> {
        self(output.clone()).await
    }
}
