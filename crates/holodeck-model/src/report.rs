//! The data of a finished run: the names and meanings of 0.7.1, plus new fields. A [`TestResult`] is a case in the run
//! file; it is computed from the records of the journal.

mod adaptation;
mod case;
mod failure;
mod metric;
mod quality;

use std::collections::BTreeMap;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Combination, Partial, ShardPart, Spent, TokenUsage};

pub use adaptation::Adaptation;
pub use case::{ApprovalDetail, ArgMatchDetail, TestResult, ToolInvocation, TrialResult, TurnResult};
pub use failure::{ExecutionState, Failure, FailureKind};
pub use metric::{JudgeFailure, Juror, MetricResult, MissingVote, null_as_default};
pub use quality::{LoopSummary, LoopTotals, LoopUse};

/// The file of a run as a whole. Its writer streams the cases, so that no program holds all of them.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct RunFile {
    #[schemars(flatten)]
    head: ReportHead,
    /// The cases that have a result, in the order of the file.
    results: Vec<TestResult>,
    /// The planned cases without one.
    not_run: Vec<NotRun>,
    /// How the run was made; in the file beside the agent only.
    metadata: RunMetadata,
}

/// The JSON Schema of the file of a run, for readers in other languages.
pub fn run_file_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<RunFile>();
    schema.to_value()
}

/// Version of the run file; see [`ReportHead::schema_version`].
pub const REPORT_SCHEMA_VERSION: u32 = 1;

/// The verdict on a case. Only `Passed` is a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseState {
    /// Every gate was met.
    Passed,
    /// A gate was missed, or the agent failed.
    Failed,
    /// The verdict is not known: a crash, a time-out, an endpoint, a metric that could not be computed.
    Error,
    /// Nothing gates this case.
    Unchecked,
    /// Too few trials passed, and not all failed. Counts as failed.
    Flaky,
}

impl CaseState {
    /// Whether a gate was missed.
    pub fn is_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Flaky)
    }
}

/// A planned case without a result.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct NotRun {
    /// Place in the file, from 0.
    pub index: usize,
    /// The case's name.
    pub test_name: Option<String>,
    /// Why it has no result.
    pub reason: String,
}

impl NotRun {
    /// The name that is shown: the case's own, else its place.
    pub fn label(&self) -> String {
        case_label(self.test_name.as_deref(), self.index)
    }
}

/// The name of a case that is shown: its own, else its place.
pub fn case_label(name: Option<&str>, index: usize) -> String {
    name.map_or_else(|| format!("#{}", index + 1), ToOwned::to_owned)
}

/// Totals of a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReportSummary {
    /// `passed + failed + errors + unchecked`.
    pub total_tests: usize,
    /// Cases that met every gate.
    pub passed: usize,
    /// Cases that missed one, flaky ones included.
    pub failed: usize,
    /// Failed cases of which some trials passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flaky: usize,
    /// How many verdicts of juries lack the vote of a judge, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_votes: BTreeMap<String, usize>,
    /// Cases without a verdict.
    #[serde(default)]
    pub errors: usize,
    /// Cases that nothing gates.
    #[serde(default)]
    pub unchecked: usize,
    /// Planned cases without a result; not included in `total_tests`.
    #[serde(default)]
    pub not_run: usize,
    /// Cases with an answer of which a part is missing or may be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: usize,
    /// These cases by the provider's reason. A reason that is not known counts, because it may be a cut.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub truncated_by: BTreeMap<String, usize>,
    /// Percent of the checked cases that passed; null when nothing was checked.
    pub pass_rate: Option<f64>,
    /// Sum over the cases.
    pub total_duration_ms: u64,
    /// Number of scores of each metric.
    pub metrics_evaluated: BTreeMap<String, usize>,
    /// Mean of all scores of each metric, zeros included.
    pub average_scores: BTreeMap<String, f64>,
    /// Metrics that could not be computed.
    #[serde(default)]
    pub metric_errors: usize,
    /// Tokens of the cases that reported them.
    #[serde(default)]
    pub token_usage: Option<TokenUsage>,
    /// Cases whose endpoint reported no tokens.
    #[serde(default)]
    pub usage_missing: usize,
    /// Price of the run without its judges, if known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Tokens of the judges; absent if none was asked or one reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<TokenUsage>,
    /// Price of the judges, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_cost_usd: Option<f64>,
    /// Tokens of the models that played users; absent if there was none or one reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_usage: Option<TokenUsage>,
    /// Price of the models that played users, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_cost_usd: Option<f64>,
    /// A summary of the quality loops; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops: Option<LoopTotals>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The source of a replayed run's answers.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Replayed {
    /// Date of the recording, `YYYY-MM-DD`.
    pub recorded: String,
    /// The model that answered then.
    pub model: String,
    /// The recording.
    pub cassette: String,
}

impl Replayed {
    /// The line in every summary and report.
    pub fn describe(&self) -> String {
        format!("replayed, recorded {}, {}", self.recorded, self.model)
    }
}

/// Everything of a report except its cases, which are streamed.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReportHead {
    /// The agent.
    pub agent_name: String,
    /// Its file as typed.
    pub agent_config_path: String,
    /// Totals.
    pub summary: ReportSummary,
    /// When the run ended, RFC 3339 UTC.
    pub timestamp: String,
    /// Version of HoloDeck.
    pub holodeck_version: String,
    /// Settings of the run.
    pub environment: Value,
    /// Version of this format.
    pub schema_version: u32,
    /// The run.
    pub run_id: String,
    /// Set if the answers come from a recording.
    pub replayed: Option<Replayed>,
    /// Warnings about the verdicts, such as sources of an index that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The parts of requests to models that their endpoints refused, in the order in which they were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapted: Vec<Adaptation>,
    /// How the run ended: `completed`, `interrupted`, `terminated`, `budget`, `unenforceable` (a budget that could not
    /// be enforced), `stopped` or `incomplete`.
    pub ended: String,
    /// Why it ended before all planned cases ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_because: Option<String>,
    /// The run whose answers were graded again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regraded_from: Option<String>,
    /// The combination of the agent's matrix that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combination: Option<Combination>,
    /// Set if the run is one part of a larger one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardPart>,
    /// The runs of the shards that this run consists of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged_from: Vec<String>,
    /// Set if only some of the cases of the file were selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// The usage of deriving the steps of judges before the run; included in the totals of judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_steps: Option<Spent>,
    /// Whether the answers are those of the agent's quality loop; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_loop: Option<LoopUse>,
    /// Each part of the agent that affects its answers, with its digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_parts: BTreeMap<String, String>,
}

impl ReportHead {
    /// The source of the answers, if not the agent file as it is: shown in every summary and report.
    pub fn provenance(&self) -> Vec<String> {
        let combination = self.combination.iter();
        let combination = combination.map(|combination| format!("combination {combination}"));
        let replayed = self.replayed.iter().map(Replayed::describe);
        let regraded = self
            .regraded_from
            .iter()
            .map(|run| format!("regraded from {run}"));
        let own = self.summary.total_tests + self.summary.not_run;
        let shard = self.shard.iter().map(|shard| shard.describe(own));
        let merged =
            (!self.merged_from.is_empty()).then(|| format!("merged from {} shards", self.merged_from.len()));
        let partial = self.partial.clone().map(Partial::describe);
        let quality_loop = self.quality_loop.iter();
        let quality_loop = quality_loop.map(|used| used.describe().to_owned());
        let others = quality_loop
            .chain(replayed)
            .chain(regraded)
            .chain(shard)
            .chain(merged);
        partial.into_iter().chain(combination).chain(others).collect()
    }
}

/// Information about the agent that is stored with a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunMetadata {
    /// The agent as it ran, secrets masked.
    pub agent_config: Value,
    /// Which prompt it ran with.
    pub prompt_version: Value,
    /// Version of HoloDeck.
    pub holodeck_version: String,
    /// The command line.
    pub cli_args: Vec<String>,
    /// The commit of the agent's folder.
    pub git_commit: Option<String>,
    /// The MCP servers that were connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServerRecord>,
    /// The files of an administrator that applied, whatever the YAML says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_files: Vec<ManagedFileRecord>,
}

/// A file of an administrator that applied to a run.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ManagedFileRecord {
    /// Its path.
    pub path: String,
    /// The digest of its content; `None` if it cannot be read.
    pub digest: Option<String>,
}

/// An MCP server that a run used.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct McpServerRecord {
    /// As the YAML names it.
    pub tool: String,
    /// As it names itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The protocol revision that was used, such as `2025-11-25`.
    pub protocol: String,
}
