//! The contract of a metric.

use thiserror::Error;

use crate::EvalInput;

/// Something that gives an answer a score.
pub trait Metric: Send + Sync {
    /// The name under which the score is reported.
    fn name(&self) -> &str;

    /// What the input must have for the score to be computed.
    fn needs(&self) -> &[Need];

    /// The score, or why there is none.
    fn score(&self, input: &EvalInput<'_>) -> Result<Score, MetricError>;
}

/// What a metric needs beyond the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// The expected answer (`ground_truth`).
    Reference,
    /// How long the answer took.
    Latency,
    /// What the answer cost.
    Cost,
    /// A model that judges.
    Judge,
    /// A process that runs a grader.
    Code,
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

    /// 1 for a check that is met.
    pub fn met() -> Self {
        Self {
            value: 1.0,
            passed: Some(true),
            reason: None,
        }
    }

    /// 0 for a check that is not, and why.
    pub fn missed(reason: impl Into<String>) -> Self {
        Self {
            value: 0.0,
            passed: Some(false),
            reason: Some(reason.into()),
        }
    }
}

/// Why a metric could not be computed. Never the same as a bad score.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// Nothing to compare with.
    #[error("`{metric}` needs a `ground_truth`, and this test has none")]
    MissingReference {
        /// The metric.
        metric: String,
    },
    /// The expected answer is nothing that the metric can look for.
    #[error("`{metric}` cannot use the expected text: {problem}")]
    UnusableReference {
        /// The metric.
        metric: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The path leads nowhere in this answer.
    #[error("response_path `{path}`: {problem}")]
    ResponsePath {
        /// The path as written.
        path: String,
        /// Where it ends.
        problem: String,
    },
    /// A regular expression gave up on this answer.
    #[error("the regular expression `{pattern}` gave up on this answer: {problem}")]
    Regex {
        /// The expression.
        pattern: String,
        /// Why.
        problem: String,
    },
    /// How long the answer took is not known.
    #[error("the latency of this answer is not known")]
    LatencyUnknown,
    /// What the answer cost is not known.
    #[error("the cost of this answer is not known: the endpoint told no usage, or the model has no price")]
    CostUnknown,
    /// The metric needs a judge, and there is none yet.
    #[error("`{name}` needs a model that judges, which this version cannot run")]
    JudgeNotAvailable {
        /// The metric.
        name: String,
    },
    /// The metric is a code grader, and these do not run yet.
    #[error("`{name}` is a code grader, which this version cannot run")]
    CodeGraderNotAvailable {
        /// The metric.
        name: String,
    },
    /// The score is not a number, which no score may be.
    #[error("`{metric}` gave {value}, which is not a score")]
    NotAScore {
        /// The metric.
        metric: String,
        /// What it gave.
        value: f64,
    },
}
