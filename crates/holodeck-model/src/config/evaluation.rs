//! How answers are judged.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{ModelConfig, OptimizerConfig, StandardMetric};
use crate::value::tagged_enum;

/// The metrics of the agent's tests.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluationConfig {
    /// The model that judges, for metrics that need one.
    pub model: Option<ModelConfig>,
    /// What is measured.
    #[schemars(length(min = 1))]
    pub metrics: Vec<MetricConfig>,
    /// How the agent is tuned.
    pub optimizer: Option<OptimizerConfig>,
}

/// A metric.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "type")]
#[expect(
    clippy::large_enum_variant,
    reason = "an agent has only a few; a box would complicate every use"
)]
pub enum MetricConfig {
    /// A check, a text metric, or a ready-made judge.
    Standard(StandardMetric),
    /// A judge with criteria of your own.
    Geval(GevalMetric),
    /// A judge of retrieval and grounding.
    Rag(RagMetric),
    /// A Python function.
    Code(CodeMetric),
}

tagged_enum!(MetricConfig { Standard => "standard", Geval => "geval", Rag => "rag", Code => "code" });

impl MetricConfig {
    /// Which key names the type of a metric that does not state it.
    pub const TYPE_KEYS: [(&str, &str); 4] = [
        ("metric", "standard"),
        ("criteria", "geval"),
        ("metric_type", "rag"),
        ("grader", "code"),
    ];

    /// The name under which scores are reported.
    pub fn name(&self) -> &str {
        match self {
            Self::Standard(metric) => metric.metric.as_str(),
            Self::Geval(metric) => &metric.name,
            Self::Rag(metric) => metric.metric_type.as_str(),
            Self::Code(metric) => metric.name(),
        }
    }

    /// The threshold as written or, for judges, their default. Absent: the metric's own verdict, or not gated.
    pub fn threshold(&self) -> Option<f64> {
        match self {
            Self::Standard(metric) => metric.threshold,
            Self::Geval(metric) => Some(metric.threshold.unwrap_or(0.5)),
            Self::Rag(metric) => Some(metric.threshold),
            Self::Code(metric) => metric.threshold,
        }
    }

    /// Whether the metric is enabled.
    pub fn enabled(&self) -> bool {
        match self {
            Self::Standard(metric) => metric.enabled,
            Self::Geval(metric) => metric.enabled,
            Self::Rag(metric) => metric.enabled,
            Self::Code(metric) => metric.enabled,
        }
    }

    /// Whether the answer is compared with the `ground_truth` of the case.
    pub fn needs_ground_truth(&self) -> bool {
        matches!(self, Self::Standard(metric) if metric.needs_ground_truth())
    }

    /// Whether the metric needs a judge.
    pub fn needs_judge(&self) -> bool {
        match self {
            Self::Standard(metric) => metric.metric.needs_judge(),
            Self::Geval(_) | Self::Rag(_) => true,
            Self::Code(_) => false,
        }
    }

    /// The judge model set on this metric alone.
    pub fn model(&self) -> Option<&ModelConfig> {
        match self {
            Self::Standard(metric) => metric.model.as_ref(),
            Self::Geval(metric) => metric.model.as_ref(),
            Self::Rag(metric) => metric.model.as_ref(),
            Self::Code(_) => None,
        }
    }

    /// Whether a result of this metric decides a test, rather than being reported only.
    pub fn gates(&self) -> bool {
        self.threshold().is_some()
            || match self {
                Self::Standard(metric) => metric.metric.has_own_verdict(),
                Self::Geval(_) | Self::Rag(_) | Self::Code(_) => true,
            }
    }
}

/// A judge with criteria of your own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GevalMetric {
    /// Name under which scores are reported.
    #[schemars(regex(pattern = r"\S"))]
    pub name: String,
    /// What the judge looks for.
    #[schemars(regex(pattern = r"\S"))]
    pub criteria: String,
    /// The steps of the judge; derived from the criteria if absent.
    pub evaluation_steps: Option<Vec<String>>,
    /// What the judge sees.
    #[serde(default = "actual_output")]
    #[schemars(length(min = 1))]
    pub evaluation_params: Vec<EvalParam>,
    /// Score 1 or 0, nothing between.
    #[serde(default)]
    pub strict_mode: bool,
    /// Minimum score to pass; 0.5 if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: Option<f64>,
    /// The judge, instead of `evaluations.model`.
    pub model: Option<ModelConfig>,
    /// Whether the metric is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Without effect: a metric that cannot be computed is always an error.
    #[serde(default)]
    #[schemars(extend("x-no-effect" = "a metric that cannot be computed is always an error"))]
    pub fail_on_error: bool,
}

/// What a judge may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalParam {
    /// The question.
    Input,
    /// The answer.
    ActualOutput,
    /// The ground truth.
    ExpectedOutput,
    /// The context of the case.
    Context,
    /// What retrieval found.
    RetrievalContext,
}

/// A judge of retrieval and grounding.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RagMetric {
    /// Name of the metric.
    pub metric_type: RagMetricType,
    /// Minimum score to pass.
    #[serde(default = "one_half")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Whether the judge gives a reason.
    #[serde(default = "yes")]
    pub include_reason: bool,
    /// The judge, instead of `evaluations.model`.
    pub model: Option<ModelConfig>,
    /// Whether the metric is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Without effect: a metric that cannot be computed is always an error.
    #[serde(default)]
    #[schemars(extend("x-no-effect" = "a metric that cannot be computed is always an error"))]
    pub fail_on_error: bool,
}

/// The names of the retrieval metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RagMetricType {
    /// Does the answer follow from what was retrieved?
    Faithfulness,
    /// Does what was retrieved fit the question?
    ContextualRelevancy,
    /// Is the useful part of what was retrieved ranked first?
    ContextualPrecision,
    /// Was everything retrieved that the right answer needs?
    ContextualRecall,
    /// Does the answer fit the question?
    AnswerRelevancy,
}

impl RagMetricType {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Faithfulness => "faithfulness",
            Self::ContextualRelevancy => "contextual_relevancy",
            Self::ContextualPrecision => "contextual_precision",
            Self::ContextualRecall => "contextual_recall",
            Self::AnswerRelevancy => "answer_relevancy",
        }
    }
}

/// A Python function that grades.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeMetric {
    /// Module and function, as in `graders.orders:check`.
    #[schemars(regex(pattern = r"^[\w.]+:[\w_]+$"), extend("x-form" = "`module:function`"))]
    pub grader: String,
    /// Minimum score to pass, unless the function decides itself.
    #[schemars(range(min = 0.0))]
    pub threshold: Option<f64>,
    /// Whether the metric is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Without effect: a metric that cannot be computed is always an error.
    #[serde(default)]
    #[schemars(extend("x-no-effect" = "a metric that cannot be computed is always an error"))]
    pub fail_on_error: bool,
    /// Name under which scores are reported; default: the function's.
    pub name: Option<String>,
}

impl CodeMetric {
    /// The given name, else the function's.
    pub fn name(&self) -> &str {
        self.name
            .as_deref()
            .unwrap_or_else(|| self.grader.rsplit(':').next().unwrap_or(&self.grader))
    }
}

/// The schema of metrics whose `type` may be omitted.
pub(crate) fn inferred_metrics(generator: &mut SchemaGenerator) -> Schema {
    let metric = generator.subschema_for::<MetricConfig>();
    json_schema!({ "type": ["array", "null"], "items": { "x-type-may-be-absent": true, "allOf": [metric] } })
}

fn yes() -> bool {
    true
}

fn one_half() -> f64 {
    0.5
}

fn actual_output() -> Vec<EvalParam> {
    vec![EvalParam::ActualOutput]
}
