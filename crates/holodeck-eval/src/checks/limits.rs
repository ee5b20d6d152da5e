//! Limits on the latency and cost of the answer.

use std::time::Duration;

use holodeck_model::StandardMetric;

use super::{Answer, Check, Finding};
use crate::MetricError;

/// The answer arrived within the time limit.
pub(super) struct Latency {
    max: Duration,
}

impl Latency {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, String> {
        let max = config.max_ms.ok_or("`max_ms` is missing")?;
        Ok(Self {
            max: Duration::from_millis(max),
        })
    }
}

impl Check for Latency {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let latency = answer.input.latency.ok_or(MetricError::LatencyUnknown)?;
        let fact = format!(
            "the answer took {} ms (limit: {} ms)",
            latency.as_millis(),
            self.max.as_millis()
        );
        Ok(if latency <= self.max {
            Finding::met(fact)
        } else {
            Finding::missed(fact)
        })
    }
}

/// The answer's cost is within the limit.
pub(super) struct Cost {
    max: f64,
}

impl Cost {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, String> {
        let max = config.max_usd.ok_or("`max_usd` is missing")?;
        if max.is_finite() {
            Ok(Self { max })
        } else {
            Err("`max_usd` is not a number".to_owned())
        }
    }
}

impl Check for Cost {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let cost = answer
            .input
            .cost_usd
            .filter(|cost| cost.is_finite())
            .ok_or(MetricError::CostUnknown)?;
        let fact = format!("the answer cost ${cost} (limit: ${})", self.max);
        Ok(if cost <= self.max {
            Finding::met(fact)
        } else {
            Finding::missed(fact)
        })
    }
}
