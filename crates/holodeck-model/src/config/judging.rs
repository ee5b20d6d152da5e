//! How judges vote, when a metric is judged, and what becomes of a masked text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the scores of several judges are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// The median.
    #[default]
    Median,
    /// The mean.
    Mean,
}

/// When a metric is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricCondition {
    /// After every gate that needs no judge was met.
    GatesPassed,
}

/// How to handle a judged metric or a code grader that reads a masked text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMasked {
    /// It is an error: what decides may be in the part that it cannot see.
    #[default]
    Error,
    /// It grades the text without the masked part.
    Accept,
}
