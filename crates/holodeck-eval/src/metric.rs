//! The interfaces of metrics and judges.

use std::time::Duration;

use async_trait::async_trait;
use holodeck_model::{CodeMetric, EmbeddingConfig, GraderFailure, MissingVote, ModelConfig, Spent, UnitKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{EvalInput, InputText, VerdictFormat};

/// Computes the score of an answer.
pub trait Metric: Send + Sync {
    /// The name under which the score is reported.
    fn name(&self) -> &str;

    /// Computes the score, or returns why there is none.
    fn score(&self, input: &EvalInput<'_>) -> Result<Score, MetricError>;
}

/// A metric that calls a model or runs a program, which takes time.
#[async_trait]
pub trait AskingMetric: Send + Sync {
    /// The name under which the score is reported.
    fn name(&self) -> &str;

    /// The texts of this input that it shows to a model or a program.
    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText>;

    /// Computes the score, or returns why there is none.
    async fn score(&self, input: &EvalInput<'_>, asked: &Asked<'_>) -> Result<Score, MetricError>;
}

/// The services that a metric may call.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Asked<'a> {
    /// The model that judges.
    pub judge: &'a dyn Judge,
    /// The programs that grade.
    pub programs: &'a dyn Programs,
}

/// The beginning of the reason why an answer of a judge that is not in the requested form counts for nothing.
pub const UNFIT_VERDICT: &str = "its answer does not have the requested form: ";

/// The model that judges. It is responsible for time-outs, the number of concurrent calls, records and cost.
#[async_trait]
pub trait Judge: Send + Sync {
    /// Returns the answer to a prompt, or why there is none.
    async fn ask(&self, request: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError>;

    /// The name of the judge on this model, else of the default one, in messages; `None` if it has none.
    fn name(&self, model: Option<&ModelConfig>) -> Option<String> {
        model.map(|model| model.name.clone())
    }

    /// Returns the cosine of the embeddings of each text and of the query, in millionths, or why that is not known.
    async fn compare(&self, request: Comparison<'_>) -> Result<Vec<i64>, JudgeError> {
        let _ = request;
        Err(JudgeError::last("nothing makes embeddings here"))
    }
}

/// Texts to compare with another one by their embeddings.
#[derive(Clone, Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "metrics and tests construct it as a literal"
)]
pub struct Comparison<'a> {
    /// The model that makes the embeddings; `None` for that of the agent.
    pub embedder: Option<&'a EmbeddingConfig>,
    /// The texts.
    pub texts: Vec<String>,
    /// The text that each of them is compared with.
    pub query: String,
    /// The time limit; `None` for that of the embedder.
    pub timeout: Option<Duration>,
}

/// A judge that counts what it costs.
pub trait CountingJudge: Judge {
    /// Names the next questions in records.
    fn begin(&self, iteration: u32);

    /// Takes the cost since the last call.
    fn take_spent(&self) -> Spent;
}

/// One question to a judge.
#[derive(Clone, Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "metrics and tests construct it as a literal"
)]
pub struct JudgeRequest<'a> {
    /// The model; `None` for the default one.
    pub model: Option<&'a ModelConfig>,
    /// The purpose of the question, in records: the metric and its step.
    pub label: String,
    /// The prompt.
    pub prompt: String,
    /// The format that the answer must have.
    pub format: VerdictFormat,
    /// Whether the answer is the same for every case, so that one answer serves a whole run.
    pub shared: bool,
    /// Whether to ask for the probabilities of the possible scores.
    pub odds: bool,
    /// The time limit; `None` for the default one.
    pub timeout: Option<Duration>,
}

/// The answer of a judge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "judges construct it as a literal")]
pub struct JudgeAnswer {
    /// The answer, which matches the requested format.
    pub value: Value,
    /// The probabilities of the possible scores, where the endpoint returns them: score and probability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<(f64, f64)>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The bytes of a judge's prompt that a journal keeps.
pub const KEPT_PROMPT: usize = 32 * 1024;

/// A call of a judge, as a journal keeps it: after a kill its answer is not asked for again, and what it used counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "journals and tests construct it as a literal"
)]
pub struct JudgedLine {
    /// The unit; absent if the answer serves every unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<UnitKey>,
    /// The unit that asked for an answer that serves every unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<UnitKey>,
    /// Digest of the question.
    pub question: String,
    /// The metric and its step; empty in journals of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The prompt without secrets, for people: at most [`KEPT_PROMPT`] bytes of it; empty if texts were compared, and in
    /// journals of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The answer; absent if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<JudgeAnswer>,
    /// Why there is none; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its cost.
    pub used: Spent,
}

/// Why a judge returned no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
#[allow(clippy::exhaustive_structs, reason = "judges construct it as a literal")]
pub struct JudgeError {
    /// The reason.
    pub reason: String,
    /// Its meaning for other calls.
    pub kind: JudgeErrorKind,
}

/// The meaning of a judge's failed call for other calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "judges and metrics distinguish all of them"
)]
pub enum JudgeErrorKind {
    /// Another attempt can help.
    Retryable,
    /// Another attempt cannot help.
    Final,
    /// The endpoint rejected the credentials, so that it answers no call.
    Credentials,
    /// The recording that is replayed has no answer. A vote that was recorded is missing, and no other vote replaces it.
    RecordingMiss,
    /// It answered, and where the score belongs is something else. Another attempt can help.
    NotAScore,
}

impl JudgeError {
    /// An error that another attempt may avoid.
    pub fn retryable(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            kind: JudgeErrorKind::Retryable,
        }
    }

    /// An error that no other attempt avoids.
    pub fn last(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            kind: JudgeErrorKind::Final,
        }
    }
}

/// The programs that grade.
#[async_trait]
pub trait Programs: Send + Sync {
    /// Runs a grader with its context and returns its result as JSON, or why there is none.
    async fn run(&self, grader: &CodeMetric, context: Value) -> Result<Value, GraderFailure>;
}

/// No programs: every code grader is an error.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "it has no fields")]
pub struct NoPrograms;

#[async_trait]
impl Programs for NoPrograms {
    async fn run(&self, _: &CodeMetric, _: Value) -> Result<Value, GraderFailure> {
        Err(GraderFailure::failed("no program can be run here"))
    }
}

/// A score in 0..=1 with the metric's own verdict, if it has one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The score.
    pub value: f64,
    /// Whether the answer passes, by the metric's own rule.
    pub passed: Option<bool>,
    /// Why the score is what it is.
    pub reason: Option<String>,
    /// Details of the computation of the score, such as the verdicts on single claims.
    pub evidence: Option<Value>,
    /// How often a judge was asked again because it returned no verdict.
    pub retries: u32,
    /// The judges of a jury that gave no verdict.
    pub missing_votes: Vec<MissingVote>,
}

impl Score {
    /// A score that passes or fails only against a threshold.
    pub fn graded(value: f64) -> Self {
        Self {
            value,
            passed: None,
            reason: None,
            evidence: None,
            retries: 0,
            missing_votes: Vec::new(),
        }
    }

    /// A score of 1 for a met check.
    pub fn met() -> Self {
        Self {
            value: 1.0,
            passed: Some(true),
            reason: None,
            evidence: None,
            retries: 0,
            missing_votes: Vec::new(),
        }
    }

    /// A score of 0 for a missed check, with the reason.
    pub fn missed(reason: impl Into<String>) -> Self {
        Self {
            value: 0.0,
            passed: Some(false),
            reason: Some(reason.into()),
            evidence: None,
            retries: 0,
            missing_votes: Vec::new(),
        }
    }
}

impl MetricError {
    /// Names the repeat or the sample in which a judge failed, if there are several.
    pub(crate) fn of_part(mut self, part: &str, number: u32, count: u32) -> Self {
        if let Self::NotJudged { reason, .. } = &mut self
            && count > 1
        {
            *reason = format!("{part} {number} of {count}: {reason}");
        }
        self
    }
}

/// Why a metric could not be computed, which differs from a low score.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// An error of an earlier grading, which is kept.
    #[error("{0}")]
    Earlier(String),
    /// The case has no expected answer to compare with.
    #[error("`{metric}` needs a `ground_truth`, and this test has none")]
    MissingReference {
        /// The metric.
        metric: String,
    },
    /// The metric cannot use the expected answer.
    #[error("`{metric}` cannot use the expected text: {problem}")]
    UnusableReference {
        /// The metric.
        metric: String,
        /// The problem.
        problem: String,
    },
    /// The path does not exist in this answer.
    #[error("response_path `{path}`: {problem}")]
    ResponsePath {
        /// The path as written.
        path: String,
        /// The problem.
        problem: String,
    },
    /// A regular expression could not be evaluated on this answer.
    #[error("the regular expression `{pattern}` could not be evaluated on this answer: {problem}")]
    Regex {
        /// The expression.
        pattern: String,
        /// Why.
        problem: String,
    },
    /// The latency of the answer is not known.
    #[error("the latency of this answer is not known")]
    LatencyUnknown,
    /// The cost of the answer is not known.
    #[error(
        "the cost of this answer is not known: the endpoint reported no token usage, or the model's price is unknown"
    )]
    CostUnknown,
    /// It is not known why the answer ended.
    #[error("it is not known why this answer ended: {problem}")]
    EndUnknown {
        /// The part that is missing.
        problem: String,
    },
    /// Neither the case nor the turn has passages.
    #[error("`{metric}` needs passages: the case has no `retrieval_context`, and no tool retrieved any")]
    MissingContext {
        /// The metric.
        metric: String,
    },
    /// The metric is about a conversation, and there is none.
    #[error("`{metric}` measures a conversation, and there is none")]
    NoConversation {
        /// The metric.
        metric: String,
    },
    /// A turn of the conversation has no answer.
    #[error("`{metric}` was not computed, because the conversation is incomplete: {problem}")]
    Incomplete {
        /// The metric.
        metric: String,
        /// The missing part.
        problem: String,
    },
    /// It is not known what the user wants.
    #[error(
        "`{metric}` needs a goal: the metric has no `goal`, and the case has no `user` and no `ground_truth`"
    )]
    MissingGoal {
        /// The metric.
        metric: String,
    },
    /// The user's prompt cannot be filled in for this case.
    #[error("the `custom_prompt` of `{metric}` cannot be filled in: {problem}")]
    Prompt {
        /// The metric.
        metric: String,
        /// The problem.
        problem: String,
    },
    /// The judge returned no verdict.
    #[error("`{name}` has no verdict: {}{reason}", asked.as_ref().map_or_else(String::new, |asked| format!("{asked}: ")))]
    NotJudged {
        /// The metric.
        name: String,
        /// Who was asked, and for what.
        asked: Option<String>,
        /// Why.
        reason: String,
        /// The meaning of the failed call for others.
        kind: JudgeErrorKind,
        /// The judges of a jury that gave no verdict.
        missing_votes: Vec<MissingVote>,
    },
    /// Texts that it reads were masked: what decides may be in the masked part.
    #[error(
        "`{metric}` was not computed: {places} held a secret and was masked, and a verdict on the rest says nothing about \
         it; with `on_masked: accept` it is graded without the masked part"
    )]
    Masked {
        /// The metric.
        metric: String,
        /// The masked texts.
        places: String,
    },
    /// The answer is valid, but this program cannot read it: neither the check nor its negation is met.
    #[error("`{metric}` cannot read this answer: {problem}")]
    Unreadable {
        /// The metric.
        metric: String,
        /// Why.
        problem: String,
    },
    /// The code grader returned no usable result.
    #[error("code grader `{name}` gave no score: {reason}")]
    NotGraded {
        /// The metric.
        name: String,
        /// Why.
        reason: String,
    },
    /// It was computed without a failure, and the result is no score: none, not a number, or outside the range of scores.
    #[error("`{metric}` gave no valid score: {problem}")]
    NotAScore {
        /// The metric.
        metric: String,
        /// The returned value, and what it must be.
        problem: String,
    },
}
