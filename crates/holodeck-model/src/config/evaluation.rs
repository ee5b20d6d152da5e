//! The `evaluations` block: metrics, judges and the settings that all judged metrics share.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    Aggregate, CalibrationMinimum, GoalSuccessMetric, MetricCondition, ModelConfig, OnMasked,
    OptimizerConfig, StandardMetric, StandardMetricName, judged_metric::judged_metric,
};
use crate::value::{PathRef, SecretMap, nullable, read_secrets, tagged_enum, write_secrets};

/// The metrics of the agent's tests.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluationConfig {
    /// The model that judges, for metrics that need one.
    pub model: Option<ModelConfig>,
    /// The metrics by which answers are judged; cases may have their own.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<MetricConfig>>", length(min = 1))]
    pub metrics: Vec<MetricConfig>,
    /// How to handle a judged metric or a code grader if a text that it reads held a secret and was masked; an error if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_masked: Option<OnMasked>,
    /// How the agent is tuned.
    pub optimizer: Option<OptimizerConfig>,
}

/// A metric.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "type")]
pub enum MetricConfig {
    /// A check, a text metric, or a ready-made judge.
    Standard(StandardMetric),
    /// A judge with criteria of your own.
    Geval(GevalMetric),
    /// A judge of retrieval and grounding.
    Rag(RagMetric),
    /// A Python function or a program of your own.
    Code(CodeMetric),
    /// A judge of whether a conversation reached its goal.
    GoalSuccess(GoalSuccessMetric),
}

tagged_enum!(MetricConfig {
    Standard => "standard",
    Geval => "geval",
    Rag => "rag",
    Code => "code",
    GoalSuccess => "goal_success",
});

/// The same expression for every kind of metric.
macro_rules! of_each {
    ($config:expr, $metric:ident => $value:expr) => {
        match $config {
            MetricConfig::Standard($metric) => $value,
            MetricConfig::Geval($metric) => $value,
            MetricConfig::Rag($metric) => $value,
            MetricConfig::Code($metric) => $value,
            MetricConfig::GoalSuccess($metric) => $value,
        }
    };
}

impl MetricConfig {
    /// How much a score counts if its metric does not say so.
    pub const WEIGHT: f64 = 1.0;

    /// Which key names the type of a metric that does not state it.
    pub const TYPE_KEYS: [(&str, &str); 6] = [
        ("metric", "standard"),
        ("criteria", "geval"),
        ("metric_type", "rag"),
        ("grader", "code"),
        ("command", "code"),
        ("goal", "goal_success"),
    ];

    /// The name under which scores are reported.
    pub fn name(&self) -> &str {
        match self {
            Self::Standard(metric) => metric.metric.as_str(),
            Self::Geval(metric) => &metric.name,
            Self::Rag(metric) => metric.metric_type.as_str(),
            Self::Code(metric) => metric.name(),
            Self::GoalSuccess(metric) => &metric.name,
        }
    }

    /// The threshold as written or, for judges, their default; in strict mode only the highest score passes. Absent: the
    /// metric's own verdict, or not gated.
    pub fn threshold(&self) -> Option<f64> {
        match self {
            Self::Geval(GevalMetric {
                strict_mode: true, ..
            })
            | Self::Rag(RagMetric {
                strict_mode: true, ..
            })
            | Self::GoalSuccess(GoalSuccessMetric {
                strict_mode: true, ..
            }) => Some(1.0),
            Self::Standard(metric) => metric.threshold,
            Self::Geval(metric) => Some(metric.threshold.unwrap_or(0.5)),
            Self::Rag(metric) => Some(metric.threshold),
            Self::Code(metric) => metric.threshold,
            Self::GoalSuccess(metric) => Some(metric.threshold.unwrap_or(GoalSuccessMetric::THRESHOLD)),
        }
    }

    /// Whether the metric is enabled.
    pub fn enabled(&self) -> bool {
        of_each!(self, metric => metric.enabled)
    }

    /// Whether the answer is compared with the `ground_truth` of the case.
    pub fn needs_ground_truth(&self) -> bool {
        matches!(self, Self::Standard(metric) if metric.needs_ground_truth())
    }

    /// Whether the metric needs a judge.
    pub fn needs_judge(&self) -> bool {
        match self {
            Self::Standard(metric) => metric.metric.needs_judge(),
            Self::Geval(_) | Self::Rag(_) | Self::GoalSuccess(_) => true,
            Self::Code(_) => false,
        }
    }

    /// The metric that compares meanings by embeddings, if it is that.
    pub fn comparing(&self) -> Option<&StandardMetric> {
        match self {
            Self::Standard(metric) if metric.metric == StandardMetricName::Similar => Some(metric),
            _ => None,
        }
    }

    /// The judge model set on this metric alone.
    pub fn model(&self) -> Option<&ModelConfig> {
        match self {
            Self::Standard(metric) => metric.model.as_ref(),
            Self::Geval(metric) => metric.model.as_ref(),
            Self::Rag(metric) => metric.model.as_ref(),
            Self::GoalSuccess(metric) => metric.model.as_ref(),
            Self::Code(_) => None,
        }
    }

    /// Whether an error of the metric fails the case.
    pub fn fail_on_error(&self) -> bool {
        of_each!(self, metric => metric.fail_on_error)
    }

    /// When the metric is computed; `None` for always.
    pub fn when(&self) -> Option<MetricCondition> {
        of_each!(self, metric => metric.when)
    }

    /// How to handle the metric if a text that it reads was masked, where it says that itself.
    pub fn on_masked(&self) -> Option<OnMasked> {
        of_each!(self, metric => metric.on_masked)
    }

    /// How much its score counts in the score of its case, if it says so.
    pub fn stated_weight(&self) -> Option<f64> {
        of_each!(self, metric => metric.weight)
    }

    /// How much its score counts in the score of its case.
    pub fn weight(&self) -> f64 {
        self.stated_weight().unwrap_or(Self::WEIGHT)
    }

    /// How the metric asks its judges; `None` if it needs none.
    pub fn judging(&self) -> Option<Judging<'_>> {
        macro_rules! judging {
            ($metric:expr) => {{
                let judges = match (&$metric.judges, &$metric.model) {
                    (Some(judges), _) => judges.as_slice(),
                    (None, Some(model)) => std::slice::from_ref(model),
                    (None, None) => &[],
                };
                Judging {
                    judges,
                    min_judges: $metric
                        .min_judges
                        .map_or(judges.len().saturating_sub(1), |min| min as usize)
                        .max(1),
                    aggregate: $metric.aggregate.unwrap_or_default(),
                    repeats: $metric.judge_repeats.unwrap_or(1).max(1),
                    retries: $metric.retry_on_failure.unwrap_or(0),
                    timeout: $metric.timeout_ms.map(std::time::Duration::from_millis),
                }
            }};
        }
        match self {
            Self::Standard(metric) if metric.metric.needs_judge() => Some(judging!(metric)),
            Self::Geval(metric) => Some(judging!(metric)),
            Self::Rag(metric) => Some(judging!(metric)),
            Self::GoalSuccess(metric) => Some(judging!(metric)),
            Self::Standard(_) | Self::Code(_) => None,
        }
    }

    /// Whether a result of this metric decides a test, rather than being reported only.
    pub fn gates(&self) -> bool {
        self.threshold().is_some()
            || match self {
                Self::Standard(metric) => metric.metric.has_own_verdict(),
                Self::Geval(_) | Self::Rag(_) | Self::Code(_) | Self::GoalSuccess(_) => true,
            }
    }
}

judged_metric! {
    /// A judge with criteria of your own.
    #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct GevalMetric {
        /// Name under which scores are reported.
        #[schemars(regex(pattern = r"\S"))]
        pub name: String,
        /// The criteria that the judge applies.
        #[schemars(regex(pattern = r"\S"))]
        pub criteria: String,
        /// The steps of the judge; derived from the criteria if absent.
        pub evaluation_steps: Option<Vec<String>>,
        /// The parts of a turn that the judge sees.
        #[serde(default = "actual_output")]
        #[schemars(length(min = 1))]
        pub evaluation_params: Vec<EvalParam>,
        /// The meaning of ranges of the score, from 0 to 10.
        #[schemars(length(min = 1))]
        pub rubric: Option<Vec<RubricLevel>>,
        /// A prompt instead of the built-in one, with the placeholders `{{input}}`, `{{response}}`, `{{ground_truth}}`,
        /// `{{context}}` and `{{criteria}}`.
        #[schemars(regex(pattern = r"\S"))]
        pub custom_prompt: Option<String>,
        /// How often the score is sampled where the endpoint returns no log-probabilities; the mean counts. 1 if absent.
        #[schemars(range(min = 1, max = 20))]
        pub samples: Option<u32>,
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
    }
    judging "answer"
    {}
}

/// The meaning of a range of scores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RubricLevel {
    /// The lowest and the highest score of the range, from 0 to 10.
    pub score_range: [u32; 2],
    /// A description of an answer with such a score.
    #[schemars(regex(pattern = r"\S"))]
    pub expected_outcome: String,
}

/// How a judged metric asks.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Judging<'a> {
    /// The judges that are named; empty for the default one.
    pub judges: &'a [ModelConfig],
    /// How many of them must return a verdict.
    pub min_judges: usize,
    /// How their scores are combined.
    pub aggregate: Aggregate,
    /// How often each of them judges the same answer.
    pub repeats: u32,
    /// How often a judge that returned no verdict is asked again.
    pub retries: u32,
    /// The time limit of one call; `execution.llm_timeout` if absent.
    pub timeout: Option<std::time::Duration>,
}

/// A part of a turn that a judge may see.
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
    /// The passages that were retrieved.
    RetrievalContext,
}

judged_metric! {
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
        /// Score 1 or 0: an answer that is not perfect scores 0.
        #[serde(default)]
        pub strict_mode: bool,
        /// The judge, instead of `evaluations.model`.
        pub model: Option<ModelConfig>,
        /// Whether the metric is enabled.
        #[serde(default = "yes")]
        pub enabled: bool,
    }
    judging "answer"
    {}
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

/// Why a code grader has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(clippy::exhaustive_enums, reason = "a case and a loop treat both differently")]
pub enum GraderFailure {
    /// It ended well, and what it returned is no score.
    #[error("{0}")]
    NotAScore(String),
    /// It could not be run, failed, or returned what cannot be read.
    #[error("{0}")]
    Failed(String),
}

impl GraderFailure {
    /// It failed because of `reason`.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }
}

/// A Python function or a program that grades.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeMetric {
    /// Module and function, as in `graders.orders:check`; the module is looked for beside the YAML file first.
    #[schemars(regex(pattern = r"^[\w.]+:[\w_]+$"), extend("x-form" = "`module:function`"))]
    pub grader: Option<String>,
    /// The program, instead of `grader`: a name to be found on the path, or a path. It reads the context as JSON from
    /// standard input and writes the result to standard output.
    pub command: Option<PathRef>,
    /// Arguments of the program.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub args: Vec<String>,
    /// Environment variables passed to it; of all others, only harmless ones are passed.
    #[serde(
        default,
        deserialize_with = "read_secrets",
        serialize_with = "write_secrets",
        skip_serializing_if = "SecretMap::is_empty"
    )]
    #[schemars(with = "Option<indexmap::IndexMap<String, String>>")]
    pub env: SecretMap,
    /// Milliseconds that grading one answer may take; 30,000 if absent.
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Minimum score to pass, in addition to the grader's own verdict, if it has one.
    #[schemars(range(min = 0.0))]
    pub threshold: Option<f64>,
    /// Whether the metric is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether an error of the metric fails the case instead of leaving it without a verdict.
    #[serde(default)]
    pub fail_on_error: bool,
    /// Name under which scores are reported; default: the function's.
    pub name: Option<String>,
    /// When the metric is computed; always if absent.
    pub when: Option<MetricCondition>,
    /// How to handle it if a text that it reads held a secret and was masked, instead of `evaluations.on_masked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_masked: Option<OnMasked>,
    /// How much its score counts in the score of its case; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub weight: Option<f64>,
}

impl CodeMetric {
    /// The given name, else the function's.
    pub fn name(&self) -> &str {
        let grader = self.grader.as_deref().unwrap_or_default();
        self.name
            .as_deref()
            .unwrap_or_else(|| grader.rsplit(':').next().unwrap_or(grader))
    }

    /// How long grading one answer may take.
    pub fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.timeout_ms.unwrap_or(30_000))
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

impl MetricConfig {
    /// The calibration that its judge needs; `None` if it needs none.
    pub fn required_calibration(&self) -> Option<CalibrationMinimum> {
        let required = match self {
            Self::Standard(metric) => metric.require_calibrated,
            Self::Geval(metric) => metric.require_calibrated,
            Self::Rag(metric) => metric.require_calibrated,
            Self::GoalSuccess(metric) => metric.require_calibrated,
            Self::Code(_) => None,
        };
        required?.minimum()
    }
}
