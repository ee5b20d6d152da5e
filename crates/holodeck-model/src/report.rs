//! The data of a finished run: the names and meanings of 0.7.1, plus new fields. A [`TestResult`] is a case in the run
//! file; it is computed from the records of the journal.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CallDecision, CallDetails, CaseDeciders, CheckIdentity, Combination, Partial, ShardPart, Spent,
    TerminationReason, TokenUsage,
};

/// Version of the run file; see [`ReportHead::schema_version`].
pub const REPORT_SCHEMA_VERSION: u32 = 1;

/// The verdict on a case. Only `Passed` is a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// How the agent's part of a case or turn ended, before any grading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    /// The agent answered.
    #[default]
    Completed,
    /// The agent failed: turn limit, own budget, refusal, empty answer.
    AgentFailed,
    /// Something outside the agent failed: time-out, endpoint, crash.
    Error,
    /// Skipped because an earlier turn failed.
    Skipped,
}

/// A problem of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of problem.
    pub kind: FailureKind,
    /// The field of the YAML it is about, such as `expected_tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The turn of the conversation, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// The message; may have several lines.
    pub text: String,
    /// The next action, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kinds of [`Failure`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The agent failed in the turn: turn limit, own budget, refusal, empty answer.
    Agent,
    /// The answer was cut off at `max_tokens`, and the agent file makes that a failure.
    Truncated,
    /// The turn took too long.
    Timeout,
    /// The endpoint refused the credentials.
    Credentials,
    /// The model's endpoint returned an error, or did not answer.
    Provider,
    /// A tool could not be run at all.
    Tool,
    /// The recording has no answer.
    Replay,
    /// Something other than this run cancelled the turn.
    Cancelled,
    /// The backend failed in another way.
    Backend,
    /// Files of the question could not be read.
    Files,
    /// Skipped because an earlier turn failed.
    Skipped,
    /// An expectation about tools was not met.
    Expectation,
    /// The checks could not be set up.
    Checks,
    /// An internal error of this program.
    Internal,
    /// Read from a file that does not record the kind.
    #[serde(other)]
    Other,
}

/// A summary of a quality loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopSummary {
    /// The score of the first answer, 0–100; absent if nothing was scored.
    pub first_score: Option<f64>,
    /// The score of the returned answer, 0–100.
    pub final_score: Option<f64>,
    /// How many answers were scored.
    pub iterations: u32,
    /// Why it ended.
    pub termination_reason: TerminationReason,
    /// The score of each answer.
    #[serde(default)]
    pub scores: Vec<f64>,
    /// Whether the returned answer met the threshold.
    #[serde(default)]
    pub passed: bool,
    /// The cost of the loop beyond the first answer, in US dollars: scoring and further answers; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Answers after the first one that may have changed something outside: work that may have been done twice.
    #[serde(default, skip_serializing_if = "is_none")]
    pub repeated_side_effects: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

impl LoopSummary {
    /// How many points the returned answer is better than the first one.
    pub fn gain(&self) -> Option<f64> {
        Some(self.final_score? - self.first_score?)
    }
}

/// A summary of the quality loops of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopTotals {
    /// Cases with a loop that scored an answer.
    pub cases: usize,
    /// Points that the returned answers are better than the first ones, of all cases.
    pub points: f64,
    /// The cost of the loops beyond the first answers, in US dollars; absent if a part is unknown.
    pub cost_usd: Option<f64>,
}

impl Failure {
    /// A failure without a field, a turn or a hint.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            field: None,
            turn: None,
            text: text.into(),
            hint: None,
        }
    }

    /// An expectation of this field that was not met.
    pub fn of_field(field: &str, text: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(FailureKind::Expectation, text)
        }
    }

    /// Everything except kind and hint, on the lines of its text.
    pub fn line(&self) -> String {
        let turn = self.turn.map(|turn| format!("turn {turn}: ")).unwrap_or_default();
        let field = self.field.as_ref().map(|field| format!("{field}: "));
        format!("{turn}{}{}", field.unwrap_or_default(), self.text)
    }
}

/// A planned case without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// One case of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Place in the file, from 0.
    pub index: usize,
    /// Identity of the case, the same in every run; see [`CaseId`](crate::CaseId).
    pub case_id: String,
    /// Identity of what the case asks, files included; see [`CaseContent`](crate::CaseContent).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_id: String,
    /// Everything that decides its verdict, besides the agent.
    #[serde(default, skip_serializing_if = "CaseDeciders::is_unknown")]
    pub deciders: CaseDeciders,
    /// The case's name.
    pub test_name: Option<String>,
    /// The question; of several turns, joined by a line `---`.
    pub test_input: String,
    /// Files given with the question.
    #[serde(default)]
    pub processed_files: Vec<Value>,
    /// The answer; of several turns, the last one.
    pub agent_response: Option<String>,
    /// Names of the called tools, in order.
    pub tool_calls: Vec<String>,
    /// Calls with their results.
    pub tool_invocations: Vec<ToolInvocation>,
    /// As in the YAML.
    pub expected_tools: Option<Value>,
    /// Whether all expectations about tools were met; absent when there are none.
    pub tools_matched: Option<bool>,
    /// The result of each expectation about decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval_details: Vec<ApprovalDetail>,
    /// One for each metric.
    pub metric_results: Vec<MetricResult>,
    /// The expected answer.
    pub ground_truth: Option<String>,
    /// True for state `passed` only.
    pub passed: bool,
    /// The verdict.
    pub state: CaseState,
    /// How the agent's part ended.
    #[serde(default)]
    pub execution: ExecutionState,
    /// Wall time.
    pub execution_time_ms: u64,
    /// The time that a latency limit applies to: wall time, or in a replayed run the recorded time.
    #[serde(default)]
    pub latency_ms: Option<u64>,
    /// All problems, for people.
    pub errors: Vec<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// When it ended, RFC 3339.
    pub timestamp: String,
    /// Tokens; absent if the endpoint reported none.
    pub token_usage: Option<TokenUsage>,
    /// Price of the tokens; absent if they or the price are unknown.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Tokens of the judges of its metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<TokenUsage>,
    /// Price of the judges, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_cost_usd: Option<f64>,
    /// A summary of the quality loop around the case; absent if there was none.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub quality_loop: Option<LoopSummary>,
    /// Why the conversation with a simulated user ended: `goal_reached`, `gave_up`, `max_turns`, `stop_when`, `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// The last message of the simulated user, which the agent did not receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_closing: Option<String>,
    /// The model that played the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_model: Option<String>,
    /// Tokens of the model that played the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_usage: Option<TokenUsage>,
    /// Price of the model that played the user, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_cost_usd: Option<f64>,
    /// Model calls made.
    #[serde(default)]
    pub num_turns: u32,
    /// The model that answered, by its own name; of several turns, the last one.
    #[serde(default)]
    pub model: Option<String>,
    /// Whether a part of the answer is missing or may be; of several turns, any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The provider's reasons for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated_by: Vec<String>,
    /// Whether secrets were masked in the answer before it was stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The answer as an object, when the agent has a `response_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<Value>,
    /// The retrieved context for the metrics: the YAML's own, else the outputs of retrieval tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval_context: Option<Vec<String>>,
    /// The turns of a multi-turn case.
    pub turns: Option<Vec<TurnResult>>,
    /// The number of trials with a verdict; this field and those below are absent for a case that ran once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// How many of them passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials_passed: Option<u32>,
    /// The number of further trials, which ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_errors: Option<u32>,
    /// How many trials must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_passes: Option<u32>,
    /// The lower end of the 95 % Wilson interval of the share of passed trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_high: Option<f64>,
    /// The estimated probability that at least one of `k` attempts passes, by `k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_at_k: Option<BTreeMap<u32, f64>>,
    /// The estimated probability that all of `k` attempts pass, by `k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_hat_k: Option<BTreeMap<u32, f64>>,
    /// Every trial, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_results: Option<Vec<TrialResult>>,
}

/// One trial of a case that ran several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its place, from 0.
    pub trial: u32,
    /// The verdict.
    pub state: CaseState,
    /// How the agent's part ended.
    pub execution: ExecutionState,
    /// All problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// The answer; absent for a trial that passed, except the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_response: Option<String>,
    /// One for each metric.
    pub metric_results: Vec<MetricResult>,
    /// Why its conversation with a simulated user ended, as in [`TestResult::ended_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Price of the tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Wall time.
    pub execution_time_ms: u64,
}

/// One turn of a multi-turn case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// Place, from 0.
    pub turn_index: usize,
    /// The question.
    pub input: String,
    /// The answer.
    pub response: Option<String>,
    /// The expected answer.
    pub ground_truth: Option<String>,
    /// As in the YAML.
    pub expected_tools: Option<Value>,
    /// Names of the called tools, in order.
    pub tool_calls: Vec<String>,
    /// Calls with their results.
    pub tool_invocations: Vec<ToolInvocation>,
    /// Whether all expectations about tools were met.
    pub tools_matched: Option<bool>,
    /// The result of each expectation about arguments.
    pub arg_match_details: Option<Vec<ArgMatchDetail>>,
    /// The result of each expectation about decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval_details: Vec<ApprovalDetail>,
    /// One for each metric.
    pub metric_results: Vec<MetricResult>,
    /// Whether the turn met every gate it has.
    pub passed: bool,
    /// The verdict.
    pub state: CaseState,
    /// How the agent's part ended.
    #[serde(default)]
    pub execution: ExecutionState,
    /// Wall time.
    pub execution_time_ms: u64,
    /// The time that a latency limit applies to.
    #[serde(default)]
    pub latency_ms: Option<u64>,
    /// Tokens.
    pub token_usage: Option<TokenUsage>,
    /// Price of the tokens.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Model calls made.
    #[serde(default)]
    pub num_turns: u32,
    /// The answer as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<Value>,
    /// The retrieved context for the metrics: the YAML's own, else the outputs of the turn's retrieval tools, else
    /// those of earlier turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval_context: Option<Vec<String>>,
    /// All problems.
    pub errors: Vec<String>,
    /// The model that answered, by its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether a part of the answer is missing or may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The provider's reason for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_by: Option<String>,
    /// Whether secrets were masked in the answer before it was stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// Whether the turn was not run.
    pub skipped: bool,
    /// Details of code graders.
    #[serde(default)]
    pub grader_details: Option<Value>,
}

/// A tool call with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInvocation {
    /// Tool name.
    pub name: String,
    /// Arguments.
    pub args: Value,
    /// Its result; null if there is none.
    pub result: Value,
    /// Length of the result's JSON text.
    pub bytes: usize,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Further details.
    #[serde(flatten)]
    pub details: CallDetails,
}

/// The result of one expectation about a tool's arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgMatchDetail {
    /// The tool.
    pub expected_tool: String,
    /// The arguments that were checked.
    pub args_asserted: Value,
    /// The call that matched, or -1.
    pub matched_call_index: i64,
    /// Why no call matched.
    pub unmatched_reason: Option<String>,
}

/// The result of one expectation about the decisions on a tool's calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "checks and tests construct it as a literal"
)]
pub struct ApprovalDetail {
    /// The tool, as written in the YAML.
    pub tool: String,
    /// The decision that one of its calls had to have.
    pub expected: CallDecision,
    /// The decisions about its calls, in order; empty if it was not called.
    pub got: Vec<String>,
    /// Whether the expectation was met.
    pub met: bool,
}

/// One metric of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// Name.
    pub metric_name: String,
    /// `standard`, `rag`, `geval`, `code` or `goal_success`.
    pub kind: String,
    /// Whether it measures the whole conversation of a case, rather than an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation: bool,
    /// The score; absent when it could not be computed.
    pub score: Option<f64>,
    /// The lowest score that passes.
    pub threshold: Option<f64>,
    /// Whether the gate was met; absent when the metric gates nothing or could not be computed.
    pub passed: Option<bool>,
    /// `0-1`.
    pub scale: String,
    /// Why it could not be computed.
    pub error: Option<String>,
    /// How often a judge was asked again because it returned no verdict.
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

/// A judge of a jury that gave no verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a run distinguishes all of them")]
pub enum JudgeFailure {
    /// The endpoint rejected the credentials.
    Credentials,
    /// The recording that is replayed has no answer.
    RecordingMiss,
}

/// A judge of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Totals of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        let partial = self.partial.map(Partial::describe);
        let others = replayed.chain(regraded).chain(shard).chain(merged);
        partial.into_iter().chain(combination).chain(others).collect()
    }
}

/// Information about the agent that is stored with a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedFileRecord {
    /// Its path.
    pub path: String,
    /// The digest of its content; `None` if it cannot be read.
    pub digest: Option<String>,
}

/// An MCP server that a run used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
