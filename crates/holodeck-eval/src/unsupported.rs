//! Metrics that this version does not support: each returns an error with its name and never passes silently.

use async_trait::async_trait;
use holodeck_model::MetricConfig;

use crate::{Asked, AskingMetric, EvalInput, MetricError, Score};

/// A metric that runs a program of the user.
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

#[async_trait]
impl AskingMetric for CodeGrader {
    fn name(&self) -> &str {
        &self.name
    }

    async fn score(&self, _: &EvalInput<'_>, _: &Asked<'_>) -> Result<Score, MetricError> {
        Err(MetricError::CodeGraderNotAvailable {
            name: self.name.clone(),
        })
    }
}
