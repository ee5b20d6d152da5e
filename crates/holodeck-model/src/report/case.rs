//! The result of a test case, with its trials, turns and tool calls.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CaseState, ExecutionState, Failure, LoopSummary, MetricResult};
use crate::{CallDecision, CallDetails, CaseDeciders, ExecutorRecord, TokenUsage};

/// One case of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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
    /// The mean of the scores of its metrics by their weights, if it has a `min_score` or one of them a `weight`; of
    /// several trials, that of the shown one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// True for state `passed` only.
    pub passed: bool,
    /// The verdict.
    pub state: CaseState,
    /// How the agent's part ended.
    #[serde(default)]
    pub execution: ExecutionState,
    /// Which executor answered, if the agent has `routing:`; of several turns, the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<Box<ExecutorRecord>>,
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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
    /// Which executor answered, if the agent has `routing:`; of several turns, the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<Box<ExecutorRecord>>,
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
