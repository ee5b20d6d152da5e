//! Improves an answer until it is good enough.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, IntoDeserializer as _, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{AfterSideEffects, ModelConfig};
use crate::value::nullable;

/// Improves an answer until it is good enough, or for a named reason no longer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QualityLoopConfig {
    /// Whether answers are improved.
    pub enabled: bool,
    /// How a better answer is found.
    pub strategy: LoopStrategy,
    /// The scorer of answers.
    pub scorer: ScorerConfig,
    /// The score (0–100) that is good enough.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub threshold: f64,
    /// How many answers are scored at most.
    #[schemars(range(min = 1, max = 50))]
    pub max_iterations: u32,
    /// How many points the score must rise by with each iteration.
    pub min_improvement: MinImprovement,
    /// Seconds after which no further iteration starts; a call in progress is not interrupted.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout_seconds: Option<f64>,
    /// Seconds after which a call in progress is cancelled.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub hard_timeout_seconds: Option<f64>,
    /// How many iterations in a row may improve too little.
    #[schemars(range(min = 1, max = 50))]
    pub patience: u32,
    /// When scores go up and down.
    pub oscillation: OscillationConfig,
    /// Which of these end the loop.
    pub stop_on: Vec<StopOn>,
    /// Which answer is returned. After a time-out it is always the last scored one.
    #[serde(rename = "return")]
    pub returns: LoopReturn,
    /// How to proceed if nothing could be scored.
    pub on_scorer_error: OnScorerError,
    /// The limits on cost and tokens of the loop.
    pub budget: LoopBudget,
    /// With `best_of_n`: how many answers are made.
    #[schemars(range(min = 1, max = 50))]
    pub n: u32,
    /// With `best_of_n`: how many of them may fail.
    pub max_failures: u32,
    /// With `best_of_n`: whether tools that may change something may be called several times.
    pub after_side_effects: AfterSideEffects,
}

impl Default for QualityLoopConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            strategy: LoopStrategy::default(),
            scorer: ScorerConfig::default(),
            threshold: 70.0,
            max_iterations: 5,
            min_improvement: MinImprovement::Points(2.0),
            timeout_seconds: None,
            hard_timeout_seconds: None,
            patience: 1,
            oscillation: OscillationConfig::default(),
            stop_on: vec![StopOn::Stagnation, StopOn::Oscillation],
            returns: LoopReturn::default(),
            on_scorer_error: OnScorerError::default(),
            budget: LoopBudget::default(),
            n: 3,
            max_failures: 0,
            after_side_effects: AfterSideEffects::default(),
        }
    }
}

/// How a better answer is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopStrategy {
    /// Each iteration gets the previous answer and what to improve.
    #[default]
    Refine,
    /// Several independent answers; the best one counts.
    BestOfN,
}

/// The scorer of answers. The parts that are given are combined.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScorerConfig {
    /// Names of metrics of `evaluations`.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub metrics: Vec<String>,
    /// A model that scores the answer.
    pub judge: Option<LoopJudge>,
    /// Commands whose result limits the score.
    pub signals: SignalsConfig,
}

/// A model that scores the answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopJudge {
    /// A description of a good answer.
    #[schemars(regex(pattern = r"\S"))]
    pub criteria: String,
    /// The judge, instead of `evaluations.model`.
    pub model: Option<ModelConfig>,
    /// How often it scores each answer; the mean counts. From 2 on, its noise is known.
    #[schemars(range(min = 1, max = 20))]
    pub judge_repeats: Option<u32>,
}

/// Commands whose result limits the score.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignalsConfig {
    /// Runs the tests.
    #[schemars(regex(pattern = r"\S"))]
    pub tests: Option<String>,
    /// Builds the project.
    #[schemars(regex(pattern = r"\S"))]
    pub build: Option<String>,
    /// Checks the style.
    #[schemars(regex(pattern = r"\S"))]
    pub lint: Option<String>,
    /// Seconds that each of them may take, 600 by default. One that takes longer is ended, and the answer has no score.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

impl SignalsConfig {
    /// How long a command may take if nothing else is said.
    pub const DEFAULT_LIMIT: Duration = Duration::from_mins(10);

    /// How long each command may take.
    pub fn limit(&self) -> Duration {
        let limit = self.timeout_seconds.map(u64::from).map(Duration::from_secs);
        limit.unwrap_or(Self::DEFAULT_LIMIT)
    }
}

impl SignalsConfig {
    /// The commands that are set, by the names of their fields.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self {
            tests,
            build,
            lint,
            timeout_seconds: _,
        } = self;
        let all = [("tests", tests), ("build", build), ("lint", lint)];
        all.into_iter()
            .filter_map(|(name, command)| Some((name, command.as_deref()?)))
    }
}

/// How much the score must rise: points, or a multiple of the scorer's own noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinImprovement {
    /// Points.
    Points(f64),
    /// A multiple of the standard deviation of the difference of two scores.
    Noise(NoiseMultiple),
}

/// A multiple of the scorer's own noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoiseMultiple {
    /// The multiple.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub noise: f64,
}

impl Serialize for MinImprovement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Points(points) => points.serialize(serializer),
            Self::Noise(multiple) => multiple.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MinImprovement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ImprovementVisitor;

        impl<'de> Visitor<'de> for ImprovementVisitor {
            type Value = MinImprovement;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a mapping with `noise`")
            }

            fn visit_f64<E: de::Error>(self, points: f64) -> Result<MinImprovement, E> {
                Ok(MinImprovement::Points(points))
            }

            fn visit_i64<E: de::Error>(self, points: i64) -> Result<MinImprovement, E> {
                f64::deserialize(points.into_deserializer()).map(MinImprovement::Points)
            }

            fn visit_u64<E: de::Error>(self, points: u64) -> Result<MinImprovement, E> {
                f64::deserialize(points.into_deserializer()).map(MinImprovement::Points)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MinImprovement, E> {
                // As for any other number in YAML, quotes make no difference.
                let points = text.trim().parse();
                points
                    .map(MinImprovement::Points)
                    .map_err(|_| E::invalid_type(de::Unexpected::Str(text), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MinImprovement, A::Error> {
                NoiseMultiple::deserialize(MapAccessDeserializer::new(map)).map(MinImprovement::Noise)
            }
        }

        // Not `deserialize_f64`: stored loops are JSON, whose deserializer then refuses a mapping.
        deserializer.deserialize_any(ImprovementVisitor)
    }
}

impl JsonSchema for MinImprovement {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MinImprovement".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let multiple = generator.subschema_for::<NoiseMultiple>();
        json_schema!({ "anyOf": [{ "type": "number", "minimum": 0.0, "maximum": 100.0 }, multiple] })
    }
}

/// When scores go up and down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OscillationConfig {
    /// How many scores are looked at.
    #[schemars(range(min = 3, max = 50))]
    pub window: u32,
    /// How many points each step must have.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub min_swing: f64,
    /// Whether an answer that was given before counts, too.
    pub detect_repeats: bool,
}

impl Default for OscillationConfig {
    fn default() -> Self {
        Self {
            window: 3,
            min_swing: 2.0,
            detect_repeats: true,
        }
    }
}

/// A condition that ends a loop early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopOn {
    /// The score no longer rises by `min_improvement`.
    Stagnation,
    /// The score goes up and down, or an answer repeats.
    Oscillation,
}

/// Which answer is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopReturn {
    /// The one with the highest score; of equal ones the first.
    #[default]
    Best,
    /// The last one that was scored.
    Last,
}

/// How to proceed if nothing could be scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnScorerError {
    /// The next executor of `routing.chain` takes over.
    #[default]
    Fallback,
    /// The answer is returned without a score.
    Return,
}

/// The limits of a loop; the answer that was paid for is always scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoopBudget {
    /// US dollars.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_cost_usd: Option<f64>,
    /// Tokens.
    #[schemars(range(min = 1))]
    pub max_total_tokens: Option<u64>,
}
