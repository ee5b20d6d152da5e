//! The interfaces of metrics and judges.

use async_trait::async_trait;
use thiserror::Error;

use crate::EvalInput;

/// Computes the score of an answer.
pub trait Metric: Send + Sync {
    /// The name under which the score is reported.
    fn name(&self) -> &str;

    /// Computes the score, or returns why there is none.
    fn score(&self, input: &EvalInput<'_>) -> Result<Score, MetricError>;
}

/// A metric that calls a model or runs a program, which takes time.
#[async_trait]
pub trait AskingMetric: Send + Sync {
    /// The name under which the score is reported.
    fn name(&self) -> &str;

    /// Computes the score, or returns why there is none.
    async fn score(&self, input: &EvalInput<'_>, judge: &dyn Judge) -> Result<Score, MetricError>;
}

/// The model that judges. It is responsible for time-outs, retries, the number of concurrent calls and their cost.
#[async_trait]
pub trait Judge: Send + Sync {
    /// Returns the answer to a prompt, or why there is none.
    async fn ask(&self, prompt: &str) -> Result<String, String>;
}

/// A score in 0..=1 with the metric's own verdict, if it has one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The score.
    pub value: f64,
    /// Whether the answer passes, by the metric's own rule.
    pub passed: Option<bool>,
    /// Why the score is what it is.
    pub reason: Option<String>,
}

impl Score {
    /// A score that passes or fails only against a threshold.
    pub fn graded(value: f64) -> Self {
        Self {
            value,
            passed: None,
            reason: None,
        }
    }

    /// A score of 1 for a met check.
    pub fn met() -> Self {
        Self {
            value: 1.0,
            passed: Some(true),
            reason: None,
        }
    }

    /// A score of 0 for a missed check, with the reason.
    pub fn missed(reason: impl Into<String>) -> Self {
        Self {
            value: 0.0,
            passed: Some(false),
            reason: Some(reason.into()),
        }
    }
}

/// Why a metric could not be computed, which differs from a low score.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The case has no expected answer to compare with.
    #[error("`{metric}` needs a `ground_truth`, and this test has none")]
    MissingReference {
        /// The metric.
        metric: String,
    },
    /// The metric cannot use the expected answer.
    #[error("`{metric}` cannot use the expected text: {problem}")]
    UnusableReference {
        /// The metric.
        metric: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The path does not exist in this answer.
    #[error("response_path `{path}`: {problem}")]
    ResponsePath {
        /// The path as written.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// A regular expression could not be evaluated on this answer.
    #[error("the regular expression `{pattern}` could not be evaluated on this answer: {problem}")]
    Regex {
        /// The expression.
        pattern: String,
        /// Why.
        problem: String,
    },
    /// The latency of the answer is not known.
    #[error("the latency of this answer is not known")]
    LatencyUnknown,
    /// The cost of the answer is not known.
    #[error(
        "the cost of this answer is not known: the endpoint reported no token usage, or the model's price is unknown"
    )]
    CostUnknown,
    /// The metric needs a judge, which is not supported yet.
    #[error("`{name}` needs a judge, which this version cannot run")]
    JudgeNotAvailable {
        /// The metric.
        name: String,
    },
    /// The judge returned no answer.
    #[error("`{name}` was not judged: {reason}")]
    NotJudged {
        /// The metric.
        name: String,
        /// Why.
        reason: String,
    },
    /// The metric is a code grader, which is not supported yet.
    #[error("`{name}` is a code grader, which this version cannot run")]
    CodeGraderNotAvailable {
        /// The metric.
        name: String,
    },
    /// The score is NaN or outside the range of scores.
    #[error("`{metric}` returned {value}, which is not between 0 and 1")]
    NotAScore {
        /// The metric.
        metric: String,
        /// The returned value.
        value: f64,
    },
}
