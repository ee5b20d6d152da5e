//! Checks, text metrics and ready-made judges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EmbeddingConfig, ModelConfig, SchemaRef, judged_metric::judged_metric};
use crate::value::{Decimal, OneOrMany, is_space, without_grouping};

judged_metric! {
    /// A check, a text metric, or a ready-made judge.
    #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct StandardMetric {
        /// Name of the metric.
        pub metric: StandardMetricName,
        /// Minimum score to pass.
        #[schemars(range(min = 0.0))]
        pub threshold: Option<f64>,
        /// Whether the metric is enabled.
        #[serde(default = "yes")]
        pub enabled: bool,
        /// The highest score of the judge, which answers from 1 to this; 5 if absent. The score is its answer divided by it.
        #[schemars(range(min = 1))]
        pub scale: Option<u32>,
        /// The judge, instead of `evaluations.model`.
        pub model: Option<ModelConfig>,
    }
    judging "answer"
    {
        /// A prompt for the judge instead of the built-in one, with the placeholders `{{input}}`, `{{response}}`,
        /// `{{ground_truth}}`, `{{context}}` and `{{criteria}}`.
        #[schemars(regex(pattern = r"\S"))]
        pub custom_prompt: Option<String>,
        /// Ignore case when comparing.
        #[serde(default)]
        pub case_insensitive: bool,
        /// Ignore surrounding and repeated whitespace when comparing.
        #[serde(default)]
        pub strip_whitespace: bool,
        /// Ignore punctuation when comparing.
        #[serde(default)]
        pub strip_punctuation: bool,
        /// Maximum absolute difference between numbers.
        #[serde(default = "one_millionth")]
        #[schemars(range(min = 0.0))]
        pub absolute_tolerance: f64,
        /// Maximum difference between numbers, relative to the expected one.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        pub relative_tolerance: f64,
        /// Read `12%` as 0.12.
        #[serde(default)]
        pub accept_percent: bool,
        /// Read `1,000` as 1000.
        #[serde(default)]
        pub accept_thousands_separators: bool,
        /// The part of a JSON answer to check, as in `order.lines[0].price`.
        #[schemars(regex(
            pattern = r"^[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*(\.[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*)*$"
        ), extend("x-form" = "a path such as `order.lines[0].price`"))]
        pub response_path: Option<String>,
        /// The text to look for: a string or a list. Default: the `ground_truth` of the case.
        pub value: Option<OneOrMany>,
        /// Pass when the check fails, and vice versa.
        #[serde(default)]
        pub negate: bool,
        /// The ROUGE variant.
        pub variant: Option<RougeVariant>,
        /// Use tokenisers that support languages other than English.
        #[serde(default)]
        pub unicode: bool,
        /// Maximum number of edits between the answer and the ground truth.
        pub max_distance: Option<u64>,
        /// How long the answer may take.
        #[schemars(range(min = 1))]
        pub max_ms: Option<u64>,
        /// The highest cost of the answer.
        #[schemars(range(min = 0.0))]
        pub max_usd: Option<f64>,
        /// The JSON Schema that the answer, or the JSON in it, must match, inline or as a path.
        pub schema: Option<SchemaRef>,
        /// The lowest number of words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub min: Option<u64>,
        /// The highest number of words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max: Option<u64>,
        /// The model whose embeddings are compared, instead of the agent's `embedding_provider`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub embedder: Option<Box<EmbeddingConfig>>,
    }
}

/// Comma, underscore, no-break space, narrow no-break space.
const SEPARATORS: [char; 4] = [',', '_', '\u{a0}', '\u{202f}'];

impl StandardMetric {
    /// Reads a number as `numeric` does. The error continues “is not a number”.
    pub fn read_number(&self, text: &str) -> Result<Decimal, &'static str> {
        let trim = |text: &str| text.trim_matches(is_space).to_owned();
        let mut digits = trim(text);
        let percent = digits.ends_with('%');
        if percent {
            if !self.accept_percent {
                return Err(" (`accept_percent` is off)");
            }
            digits.pop();
            digits = trim(&digits);
        }
        if digits.contains(SEPARATORS) {
            if !self.accept_thousands_separators {
                return Err(" (`accept_thousands_separators` is off)");
            }
            digits =
                without_grouping(&digits, &SEPARATORS).ok_or(": the separators do not group thousands")?;
        }
        let number = Decimal::parse(&digits).ok_or("")?;
        Ok(if percent { number.scaled(-2) } else { number })
    }

    /// Whether the answer is compared with the `ground_truth` of the case.
    pub fn needs_ground_truth(&self) -> bool {
        use StandardMetricName as Name;
        self.metric.is_text_score()
            || self.value.is_none()
                && matches!(
                    self.metric,
                    Name::Equality
                        | Name::ExactMatch
                        | Name::Numeric
                        | Name::Contains
                        | Name::ContainsAny
                        | Name::ContainsAll
                        | Name::Icontains
                        | Name::StartsWith
                        | Name::Regex
                        | Name::Levenshtein
                        | Name::Similar
                )
    }
}

/// The names of the standard metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StandardMetricName {
    /// A judge: is the answer grounded in its context?
    Groundedness,
    /// A judge: does the answer fit the question?
    Relevance,
    /// A judge: is the answer coherent?
    Coherence,
    /// A judge: is the answer well written?
    Fluency,
    /// BLEU against the ground truth.
    Bleu,
    /// ROUGE against the ground truth.
    Rouge,
    /// METEOR against the ground truth.
    Meteor,
    /// The answer equals the ground truth.
    Equality,
    /// The answer is the number of the ground truth.
    Numeric,
    /// The answer contains the string, or each string of the list; with `negate`, none of them.
    Contains,
    /// The answer contains one of the strings.
    ContainsAny,
    /// The answer contains all of the strings; with `negate`, not all of them.
    ContainsAll,
    /// As `contains`, ignoring case.
    Icontains,
    /// The answer starts with the string.
    StartsWith,
    /// The answer matches the regular expression, or each of the list; with `negate`, none of them.
    Regex,
    /// The answer is JSON.
    JsonValid,
    /// The answer is JSON that matches a schema.
    JsonSchema,
    /// The answer is at most `max_distance` edits away from the ground truth.
    Levenshtein,
    /// The answer came in time.
    Latency,
    /// The answer was cheap enough.
    Cost,
    /// The words of answer and ground truth overlap (SQuAD F1).
    F1,
    /// The answer is the ground truth, letter by letter.
    ExactMatch,
    /// chrF against the ground truth.
    Chrf,
    /// The answer contains a JSON object; with a schema, an object or a list that matches it.
    ContainsJson,
    /// The answer is a refusal.
    IsRefusal,
    /// The answer has at least `min` and at most `max` words.
    WordCount,
    /// The answer means the same as the ground truth, by their embeddings.
    Similar,
    /// The answer ended for one of these reasons.
    FinishReason,
}

impl StandardMetricName {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Groundedness => "groundedness",
            Self::Relevance => "relevance",
            Self::Coherence => "coherence",
            Self::Fluency => "fluency",
            Self::Bleu => "bleu",
            Self::Rouge => "rouge",
            Self::Meteor => "meteor",
            Self::Equality => "equality",
            Self::Numeric => "numeric",
            Self::Contains => "contains",
            Self::ContainsAny => "contains_any",
            Self::ContainsAll => "contains_all",
            Self::Icontains => "icontains",
            Self::StartsWith => "starts_with",
            Self::Regex => "regex",
            Self::JsonValid => "json_valid",
            Self::JsonSchema => "json_schema",
            Self::Levenshtein => "levenshtein",
            Self::Latency => "latency",
            Self::Cost => "cost",
            Self::F1 => "f1",
            Self::ExactMatch => "exact_match",
            Self::Chrf => "chrf",
            Self::ContainsJson => "contains_json",
            Self::IsRefusal => "is_refusal",
            Self::WordCount => "word_count",
            Self::Similar => "similar",
            Self::FinishReason => "finish_reason",
        }
    }

    /// Whether the metric needs a judge.
    pub fn needs_judge(self) -> bool {
        matches!(
            self,
            Self::Groundedness | Self::Relevance | Self::Coherence | Self::Fluency
        )
    }

    /// Whether the metric is a score on text that gates only with a threshold.
    pub fn is_text_score(self) -> bool {
        matches!(
            self,
            Self::Bleu | Self::Rouge | Self::Meteor | Self::F1 | Self::Chrf
        )
    }

    /// Whether the metric decides without a threshold whether the answer passes.
    pub fn has_own_verdict(self) -> bool {
        !self.asks() && !self.is_text_score()
    }

    /// Whether the metric asks a model: a judge, or one that makes embeddings.
    pub fn asks(self) -> bool {
        self.needs_judge() || self == Self::Similar
    }
}

impl std::fmt::Display for StandardMetricName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The ROUGE variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RougeVariant {
    /// Single words.
    #[serde(rename = "rouge1")]
    Rouge1,
    /// Pairs of words.
    #[serde(rename = "rouge2")]
    Rouge2,
    /// The longest common subsequence.
    #[default]
    #[serde(rename = "rougeL")]
    RougeL,
    /// The longest common subsequence, by sentences.
    #[serde(rename = "rougeLsum")]
    RougeLsum,
}

fn yes() -> bool {
    true
}

fn one_millionth() -> f64 {
    1e-6
}
