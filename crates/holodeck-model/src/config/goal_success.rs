//! A judge of whether a conversation reached its goal, and which metrics fit whole conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ModelConfig, StandardMetricName, judged_metric::judged_metric};

judged_metric! {
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
    }
    judging "conversation"
    {}
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
