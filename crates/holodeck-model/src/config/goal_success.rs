//! A judge of whether a conversation reached its goal, and which metrics fit whole conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aggregate, MetricCondition, ModelConfig, OnMasked, RequireCalibrated, StandardMetricName};

/// A judge of whether the user's goal was reached in a conversation; only in `conversation_evaluations`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoalSuccessMetric {
    /// Name under which scores are reported.
    #[serde(default = "default_name")]
    #[schemars(regex(pattern = r"\S"))]
    pub name: String,
    /// The goal of the user. If absent: the `goal` of the simulated user, else the `ground_truth` of the case.
    #[schemars(regex(pattern = r"\S"))]
    pub goal: Option<String>,
    /// Score 1 or 0: a goal that is not reached entirely scores 0.
    #[serde(default)]
    pub strict_mode: bool,
    /// Minimum score to pass; 0.7 if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: Option<f64>,
    /// The judge, instead of `evaluations.model`.
    pub model: Option<ModelConfig>,
    /// Whether the metric is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether an error of the metric fails the case instead of leaving it without a verdict.
    #[serde(default)]
    pub fail_on_error: bool,
    /// How often a judge that returned no verdict is asked again.
    #[schemars(range(min = 1, max = 3))]
    pub retry_on_failure: Option<u32>,
    /// Milliseconds that one call of the judge may take; `execution.llm_timeout` if absent.
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Several judges instead of one: the majority decides, and the score is their median.
    #[schemars(length(min = 1))]
    pub judges: Option<Vec<ModelConfig>>,
    /// How many of the `judges` must return a verdict; all but one if absent, at least one.
    #[schemars(range(min = 1))]
    pub min_judges: Option<u32>,
    /// How the scores of several judges are combined.
    pub aggregate: Option<Aggregate>,
    /// How often each judge judges the same conversation, to measure its noise.
    #[schemars(range(min = 1, max = 20))]
    pub judge_repeats: Option<u32>,
    /// When the metric is computed; always if absent.
    pub when: Option<MetricCondition>,
    /// Whether a run needs a stored calibration of the judge: `true`, or the lowest `min_kappa` and `min_labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_calibrated: Option<RequireCalibrated>,
    /// How to handle it if a text that it reads held a secret and was masked, instead of `evaluations.on_masked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_masked: Option<OnMasked>,
}

impl GoalSuccessMetric {
    /// The lowest score of a goal that was reached, unless `threshold` sets another.
    pub const THRESHOLD: f64 = 0.7;
}

fn default_name() -> String {
    "goal_success".to_owned()
}

fn yes() -> bool {
    true
}

impl StandardMetricName {
    /// Whether it can be computed for a whole conversation: it looks for texts in all answers, or adds up a quantity.
    pub fn fits_conversations(self) -> bool {
        matches!(
            self,
            Self::Contains
                | Self::ContainsAny
                | Self::ContainsAll
                | Self::Icontains
                | Self::Regex
                | Self::Latency
                | Self::Cost
        )
    }
}
