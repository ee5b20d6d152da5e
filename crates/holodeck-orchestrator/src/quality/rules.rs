//! The rules of a loop: numbers only, so that a stored loop can be decided again.

use holodeck_model::{
    LoopBudget, LoopReturn, LoopStrategy, MinImprovement, OnScorerError, OscillationConfig,
    QualityLoopConfig, StopOn,
};
use serde::{Deserialize, Serialize};

/// The rules of a loop, with the names and defaults of `quality_loop:`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct LoopRules {
    /// How a better output is found.
    pub strategy: LoopStrategy,
    /// The score (0–100) that is good enough.
    pub threshold: f64,
    /// How many outputs are scored at most, 1–50; with `best_of_n` this is `n`.
    pub max_iterations: u32,
    /// How much the score must rise with each iteration.
    pub min_improvement: MinImprovement,
    /// How many iterations in a row may improve too little, minus one: 1 stops at the first.
    pub patience: u32,
    /// When scores go up and down.
    pub oscillation: OscillationConfig,
    /// Which of these end the loop.
    pub stop_on: Vec<StopOn>,
    /// Which output is returned.
    #[serde(rename = "return")]
    pub returns: LoopReturn,
    /// How to proceed if nothing could be scored.
    pub on_scorer_error: OnScorerError,
    /// The limits on tokens and cost of the loop.
    pub budget: LoopBudget,
    /// With `best_of_n`: how many outputs may fail.
    pub max_failures: u32,
    /// Seconds after which no further iteration starts.
    pub timeout_seconds: Option<f64>,
    /// Seconds after which a call in progress is cancelled.
    pub hard_timeout_seconds: Option<f64>,
}

impl Default for LoopRules {
    fn default() -> Self {
        Self::of(&QualityLoopConfig::default())
    }
}

/// A rule is outside of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {range}")]
pub struct InvalidRule {
    /// The field.
    pub field: &'static str,
    /// The values that it may have.
    pub range: &'static str,
}

impl LoopRules {
    /// The rules of a configuration.
    pub fn of(config: &QualityLoopConfig) -> Self {
        Self {
            strategy: config.strategy,
            threshold: config.threshold,
            max_iterations: match config.strategy {
                LoopStrategy::Refine => config.max_iterations,
                LoopStrategy::BestOfN => config.n,
            },
            min_improvement: config.min_improvement,
            patience: config.patience,
            oscillation: config.oscillation,
            stop_on: config.stop_on.clone(),
            returns: config.returns,
            on_scorer_error: config.on_scorer_error,
            budget: config.budget,
            max_failures: config.max_failures,
            timeout_seconds: config.timeout_seconds,
            hard_timeout_seconds: config.hard_timeout_seconds,
        }
    }

    /// Returns an error if a rule is outside of its range. Nothing is corrected silently.
    pub fn check(&self) -> Result<(), InvalidRule> {
        let within = |value: f64, max: f64| (0.0..=max).contains(&value);
        let limit = |seconds: Option<f64>| seconds.is_none_or(|seconds| seconds.is_finite() && seconds > 0.0);
        let improvement = match self.min_improvement {
            MinImprovement::Points(points) => points,
            MinImprovement::Noise(multiple) => multiple.noise,
        };
        let rules = [
            ("threshold", within(self.threshold, 100.0), "between 0 and 100"),
            (
                "max_iterations",
                (1..=50).contains(&self.max_iterations),
                "between 1 and 50",
            ),
            ("min_improvement", within(improvement, 100.0), "between 0 and 100"),
            ("patience", (1..=50).contains(&self.patience), "between 1 and 50"),
            (
                "oscillation.window",
                (3..=50).contains(&self.oscillation.window),
                "between 3 and 50",
            ),
            (
                "oscillation.min_swing",
                within(self.oscillation.min_swing, 100.0),
                "between 0 and 100",
            ),
            ("timeout_seconds", limit(self.timeout_seconds), "greater than 0"),
            (
                "hard_timeout_seconds",
                limit(self.hard_timeout_seconds),
                "greater than 0",
            ),
            (
                "budget.max_cost_usd",
                limit(self.budget.max_cost_usd),
                "greater than 0",
            ),
            (
                "budget.max_total_tokens",
                self.budget.max_total_tokens != Some(0),
                "greater than 0",
            ),
        ];
        let wrong = rules.into_iter().find(|(_, valid, _)| !valid);
        wrong.map_or(Ok(()), |(field, _, range)| Err(InvalidRule { field, range }))
    }

    /// Whether the loop can do more than score one output.
    pub fn iterates(&self) -> bool {
        self.max_iterations > 1
    }
}
