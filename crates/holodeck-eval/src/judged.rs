//! Metrics that need more than this version has: each is an error that names it, never a silent pass.

use holodeck_model::MetricConfig;

use crate::{EvalInput, Metric, MetricError, Need, Score};

/// A metric that a model judges.
pub(crate) struct Judged {
    name: String,
}

impl Judged {
    pub(crate) fn new(config: &MetricConfig) -> Self {
        Self {
            name: config.name().to_owned(),
        }
    }
}

impl Metric for Judged {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> &[Need] {
        &[Need::Judge]
    }

    fn score(&self, _: &EvalInput<'_>) -> Result<Score, MetricError> {
        Err(MetricError::JudgeNotAvailable {
            name: self.name.clone(),
        })
    }
}

/// A metric that is a program of the user.
pub(crate) struct CodeGrader {
    name: String,
}

impl CodeGrader {
    pub(crate) fn new(config: &MetricConfig) -> Self {
        Self {
            name: config.name().to_owned(),
        }
    }
}

impl Metric for CodeGrader {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> &[Need] {
        &[Need::Code]
    }

    fn score(&self, _: &EvalInput<'_>) -> Result<Score, MetricError> {
        Err(MetricError::CodeGraderNotAvailable {
            name: self.name.clone(),
        })
    }
}
