//! The result of one metric, with its judges.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::CheckIdentity;

/// One metric of one case.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MetricResult {
    /// Name.
    pub metric_name: String,
    /// `standard`, `rag`, `geval`, `code` or `goal_success`.
    pub kind: String,
    /// Whether it measures the whole conversation of a case, rather than an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation: bool,
    /// How much the score counts in the score of its case; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The score; absent when it could not be computed.
    pub score: Option<f64>,
    /// The lowest score that passes.
    pub threshold: Option<f64>,
    /// Whether the gate was met; absent when the metric gates nothing or could not be computed.
    pub passed: Option<bool>,
    /// `0-1`.
    #[serde(deserialize_with = "scale_or_default")]
    pub scale: String,
    /// Why it could not be computed.
    pub error: Option<String>,
    /// How often a judge was asked again because it returned no verdict.
    #[serde(deserialize_with = "null_as_default")]
    pub retry_count: u32,
    /// How long grading took.
    pub evaluation_time_ms: Option<f64>,
    /// The judge; several are joined by commas.
    pub model_used: Option<String>,
    /// Its judges, and whether each voted; empty for a metric without judges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jurors: Vec<Juror>,
    /// Everything that decides its verdict.
    #[serde(default, skip_serializing_if = "CheckIdentity::is_unknown")]
    pub identity: CheckIdentity,
    /// The reason for the score.
    pub reasoning: Option<String>,
    /// Whether the metric was not computed because a gate before it was missed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Details of the computation of the score, such as the verdicts on single claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The judges of a jury that gave no verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_votes: Vec<MissingVote>,
    /// The meaning of a judge's failed call for other calls, beside `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_failure: Option<JudgeFailure>,
}

/// The scale of a score; HoloDeck 0.7.1 may write null.
fn scale_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let written: Option<String> = Deserialize::deserialize(deserializer)?;
    Ok(written.unwrap_or_else(|| "0-1".to_owned()))
}

/// A field that HoloDeck 0.7.1 may write as null.
pub fn null_as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    let written: Option<T> = Deserialize::deserialize(deserializer)?;
    Ok(written.unwrap_or_default())
}

/// A judge of a jury that gave no verdict.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "juries construct it as a literal")]
pub struct MissingVote {
    /// Its name.
    pub judge: String,
    /// Its number in `judges`, from 1.
    pub number: usize,
    /// Why it gave none.
    pub reason: String,
}

/// A failure of a judge that is one of the run, and not of the metric: the exit code is that of an execution error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a run distinguishes all of them")]
pub enum JudgeFailure {
    /// The endpoint rejected the credentials.
    Credentials,
    /// The recording that is replayed has no answer.
    RecordingMiss,
}

/// A judge of a metric.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "graders construct it as a literal")]
pub struct Juror {
    /// The model, as configured.
    pub model: String,
    /// The model that answered, by its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<String>,
    /// Why it did not vote, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl MetricResult {
    /// The name in totals and comparisons, where metrics of answers and of conversations stand side by side.
    pub fn label(&self) -> Cow<'_, str> {
        if self.conversation {
            Cow::Owned(format!("{} (conversation)", self.metric_name))
        } else {
            Cow::Borrowed(&self.metric_name)
        }
    }
}
