//! A case as run files of this version and of HoloDeck 0.7 have it.

use holodeck_model::{CaseContent, CaseDeciders, CaseState, MetricResult, null_as_default};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

/// A case in a run file. HoloDeck 0.7 writes no state, only `passed`.
#[derive(Deserialize)]
pub(super) struct FileCase {
    #[serde(default)]
    pub(super) content_id: Option<CaseContent>,
    #[serde(default)]
    pub(super) test_name: Option<String>,
    pub(super) test_input: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) processed_files: Vec<IgnoredAny>,
    #[serde(default)]
    pub(super) agent_response: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) metric_results: Vec<MetricResult>,
    #[serde(default)]
    pub(super) tools_matched: Option<bool>,
    pub(super) passed: bool,
    #[serde(default)]
    pub(super) state: Option<CaseState>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) errors: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) tool_invocations: Vec<FileCall>,
    #[serde(default)]
    pub(super) deciders: CaseDeciders,
    #[serde(default)]
    pub(super) turns: Option<Vec<FileTurn>>,
    #[serde(default)]
    pub(super) trials: Option<u64>,
    #[serde(default)]
    pub(super) trials_passed: Option<u64>,
    #[serde(default)]
    pub(super) trial_errors: Option<u64>,
    #[serde(default)]
    pub(super) trial_results: Option<Vec<FileTrial>>,
}

#[derive(Deserialize)]
pub(super) struct FileTurn {
    pub(super) input: String,
    #[serde(default)]
    pub(super) response: Option<String>,
    #[serde(default)]
    pub(super) tools_matched: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct FileCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) args: Value,
}

#[derive(Deserialize)]
pub(super) struct FileTrial {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) metric_results: Vec<MetricResult>,
}

/// A planned case without a result.
#[derive(Deserialize)]
pub(super) struct FileNotRun {
    #[serde(default)]
    pub(super) test_name: Option<String>,
    pub(super) index: usize,
}
