//! The `evaluations.optimizer` block, which is read and checked but not executed.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::value::nullable;

/// The target, the parameters and the limits of tuning.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Weight of each metric.
    #[schemars(extend("minProperties" = 1))]
    pub loss: IndexMap<String, f64>,
    /// The parameters that may change.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<OptimizerAxes>")]
    pub axes: OptimizerAxes,
    /// How often both phases are repeated.
    #[serde(default = "three")]
    #[schemars(range(min = 1))]
    pub max_cycles: u32,
    /// Limits of the numeric phase.
    pub numeric_phase: Option<PhaseConfig>,
    /// Limits of the textual phase.
    pub textual_phase: Option<PhaseConfig>,
    /// Minimum improvement for a change to be kept.
    #[serde(default = "one_hundredth")]
    #[schemars(range(min = 0.0))]
    pub min_delta: f64,
    /// Seed of the random numbers.
    #[serde(default = "forty_two")]
    pub seed: i64,
}

/// The parameters that may change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerAxes {
    /// Numbers and choices.
    pub numeric: Vec<NumericAxis>,
    /// Texts.
    pub textual: Vec<TextualAxis>,
}

/// A number or choice that may change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumericAxis {
    /// Where it is in the agent file, as in `model.temperature`.
    #[schemars(regex(pattern = r"\S"))]
    pub path: String,
    /// Kind of the axis.
    #[serde(rename = "type")]
    pub axis_type: AxisType,
    /// Lowest and highest number, or the choices.
    #[schemars(length(min = 1))]
    pub range: Vec<Value>,
}

/// Kinds of numeric axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AxisType {
    /// A number.
    Float,
    /// A whole number.
    Int,
    /// A choice.
    Categorical,
}

/// A text that may change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextualAxis {
    /// Where it is in the agent file, as in `instructions.inline`.
    #[schemars(regex(pattern = r"\S"))]
    pub path: String,
    /// How long it may become.
    #[serde(default = "eight_thousand")]
    #[schemars(range(min = 1))]
    pub max_chars: u32,
}

/// Limits of a phase.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseConfig {
    /// How many trials are run.
    #[schemars(range(min = 1))]
    pub max_trials: u32,
    /// How many trials without an improvement end the phase.
    #[schemars(range(min = 1))]
    pub patience: u32,
}

fn three() -> u32 {
    3
}

fn one_hundredth() -> f64 {
    0.01
}

fn forty_two() -> i64 {
    42
}

fn eight_thousand() -> u32 {
    8000
}
