//! The `execution` block: time limits, concurrency, trials and replay of test runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::PathRef;

/// Time-outs, concurrency and replay. Flags and `HOLODECK_*` variables take precedence.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionConfig {
    /// Seconds a file may take to be processed.
    #[schemars(range(min = 1))]
    pub file_timeout: Option<u64>,
    /// Seconds one turn of the model may take.
    #[schemars(range(min = 1))]
    pub llm_timeout: Option<u64>,
    /// Seconds a download may take.
    #[schemars(range(min = 1))]
    pub download_timeout: Option<u64>,
    /// Whether files are fetched from this machine and from private networks too.
    pub allow_private_urls: Option<bool>,
    /// Without effect: caching is set per file.
    #[schemars(extend("x-no-effect" = "set `cache` on the file of a test case"))]
    pub cache_enabled: Option<bool>,
    /// Where downloaded and converted files are kept.
    pub cache_dir: Option<PathRef>,
    /// Increase verbosity.
    pub verbose: Option<bool>,
    /// Print only the result.
    pub quiet: Option<bool>,
    /// How many test cases run at the same time.
    #[schemars(range(min = 1))]
    pub parallel_test_cases: Option<u32>,
    /// How many tool calls of one answer run at the same time; 8 if absent.
    #[schemars(range(min = 1))]
    pub parallel_tool_calls: Option<u32>,
    /// How many calls of judges run at the same time; 8 if absent.
    #[schemars(range(min = 1))]
    pub parallel_judge_calls: Option<u32>,
    /// How often each test case runs; 1 if absent.
    #[schemars(range(min = 1, max = 10_000))]
    pub trials: Option<u32>,
    /// How many trials of a case must pass; all if absent.
    #[schemars(range(min = 1, max = 10_000))]
    pub min_passes: Option<u32>,
    /// The numbers of attempts for which reports estimate pass@k and pass^k, besides 1 and the number of trials.
    #[schemars(inner(range(min = 1)))]
    pub report_k: Option<Vec<u32>>,
    /// A recording to replay instead of calling the model's endpoint, unless `--live` is given.
    pub replay: Option<PathRef>,
    /// How to treat an answer that was cut off at `max_tokens`: a warning in every report, or a failed case.
    pub on_truncated: Option<OnTruncated>,
}

/// How to treat an answer that was cut off at `max_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTruncated {
    /// Every report marks the answer.
    #[default]
    Warn,
    /// The case fails.
    Fail,
}
