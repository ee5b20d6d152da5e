//! Prepares the metrics of a configuration once and computes their verdicts.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::future::join_all;
use holodeck_model::{MetricCondition, MetricConfig, MissingVote, OnMasked, Redactor, StandardMetricName};
use serde_json::Value;
use thiserror::Error;

use crate::{
    Asked, AskingMetric, EvalInput, MaskedInput, Metric, MetricError, Score, checks,
    code::CodeGrader,
    config_problem::ConfigProblem,
    judges::{Jury, Subject},
    masked,
    similar::Similar,
    text_score,
};

/// The verdict of a metric about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The gate was met.
    Passed,
    /// The gate was missed.
    Failed,
    /// A score without a threshold: it neither passes nor fails a case.
    NotGated,
    /// There is no score.
    Error,
    /// The metric was not computed, because a gate before it was missed.
    Skipped,
}

/// The `type` of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// A check, a text metric or a ready-made judge.
    Standard,
    /// A judge with criteria.
    Geval,
    /// A judge of retrieval.
    Rag,
    /// A code grader.
    Code,
    /// A judge of whether a conversation reached its goal.
    GoalSuccess,
}

impl MetricKind {
    /// The type of a metric of a configuration.
    pub fn of(config: &MetricConfig) -> Self {
        match config {
            MetricConfig::Standard(_) => Self::Standard,
            MetricConfig::Geval(_) => Self::Geval,
            MetricConfig::Rag(_) => Self::Rag,
            MetricConfig::Code(_) => Self::Code,
            MetricConfig::GoalSuccess(_) => Self::GoalSuccess,
        }
    }

    /// The type as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Geval => "geval",
            Self::Rag => "rag",
            Self::Code => "code",
            Self::GoalSuccess => "goal_success",
        }
    }
}

/// One metric's result for one answer.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a caller builds earlier outcomes that are kept"
)]
pub struct MetricOutcome {
    /// Name under which the score is reported; two metrics may share it.
    pub name: String,
    /// The `type` of the metric.
    pub kind: MetricKind,
    /// The score, 0 to 1; absent if it could not be computed.
    pub score: Option<f64>,
    /// The minimum score.
    pub threshold: Option<f64>,
    /// The verdict that follows.
    pub verdict: Verdict,
    /// Why the score is what it is.
    pub reason: Option<String>,
    /// Why there is no score: the verdict is then [`Verdict::Error`], or [`Verdict::Failed`] if the metric fails on errors.
    pub error: Option<MetricError>,
    /// Details of the computation of the score.
    pub evidence: Option<Value>,
    /// How often a judge was asked again.
    pub retries: u32,
    /// The judges of a jury that gave no verdict.
    pub missing_votes: Vec<MissingVote>,
    /// How long the computation took.
    pub evaluation_time: Duration,
}

impl MetricOutcome {
    /// Whether it does not miss a gate: an error counts as missed.
    pub fn is_met(&self) -> bool {
        !matches!(self.verdict, Verdict::Failed | Verdict::Error)
    }
}

/// A metric with an invalid configuration. The YAML checks usually report it first, with its place in the file.
#[derive(Debug, Error)]
#[error("metric {index} (`{metric}`): {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Index in the list, from 0.
    pub index: usize,
    /// Its name.
    pub metric: String,
    /// The problem.
    pub problem: String,
    /// The field of the metric that must change; `None` if several could.
    pub field: Option<&'static str>,
}

/// The enabled metrics of a list, with their expressions and schemas compiled.
#[derive(Default)]
pub struct Grader {
    metrics: Vec<PreparedMetric>,
}

struct PreparedMetric {
    metric: Scorer,
    kind: MetricKind,
    threshold: Option<f64>,
    fail_on_error: bool,
    when: Option<MetricCondition>,
    on_masked: OnMasked,
    /// The fields for its judge that hold a secret, which is masked before a judge sees it.
    masked_fields: Vec<&'static str>,
}

/// How a metric is scored.
enum Scorer {
    Computing(Box<dyn Metric>),
    Asking(Box<dyn AskingMetric>),
}

impl Grader {
    /// Prepares the enabled metrics in their order.
    pub fn new(configs: &[MetricConfig]) -> Result<Self, ConfigError> {
        Self::of(configs, Subject::Answer)
    }

    /// Prepares the enabled metrics of whole conversations in their order. Their input has `conversation`; checks look
    /// at `response`, which then holds all answers.
    pub fn for_conversation(configs: &[MetricConfig]) -> Result<Self, ConfigError> {
        Self::of(configs, Subject::Conversation)
    }

    fn of(configs: &[MetricConfig], subject: Subject) -> Result<Self, ConfigError> {
        let enabled = configs.iter().enumerate().filter(|(_, config)| config.enabled());
        let mut names: HashMap<&str, u32> = HashMap::new();
        let metrics = enabled.map(|(index, config)| {
            let number = names.entry(config.name()).or_default();
            *number += 1;
            let metric = prepare(config, subject, *number).map_err(|problem| ConfigError {
                index,
                metric: config.name().to_owned(),
                problem: problem.text,
                field: problem.field,
            })?;
            Ok(PreparedMetric {
                metric,
                kind: MetricKind::of(config),
                threshold: config.threshold(),
                fail_on_error: config.fail_on_error(),
                when: config.when(),
                on_masked: config.on_masked().unwrap_or_default(),
                masked_fields: Vec::new(),
            })
        });
        Ok(Self {
            metrics: metrics.collect::<Result<_, _>>()?,
        })
    }

    /// Decides what masked texts mean for the metrics that do not say it themselves. A field for the judge that holds a
    /// secret of `redactor` is such a text.
    pub fn on_masked(mut self, configs: &[MetricConfig], default: OnMasked, redactor: &Redactor) -> Self {
        let enabled = configs.iter().filter(|config| config.enabled());
        for (prepared, config) in self.metrics.iter_mut().zip(enabled) {
            prepared.on_masked = config.on_masked().unwrap_or(default);
            prepared.masked_fields = masked::fields_with_secrets(config, redactor);
        }
        self
    }

    /// Adds an asking metric after those of the configuration.
    pub fn with_asking(
        mut self,
        metric: Box<dyn AskingMetric>,
        kind: MetricKind,
        threshold: Option<f64>,
    ) -> Self {
        self.metrics.push(PreparedMetric {
            metric: Scorer::Asking(metric),
            kind,
            threshold,
            fail_on_error: false,
            when: None,
            on_masked: OnMasked::Error,
            masked_fields: Vec::new(),
        });
        self
    }

    /// Computes the outcomes in the order of all metrics; `None` for an asking metric.
    pub fn compute(&self, input: &EvalInput<'_>) -> Vec<Option<MetricOutcome>> {
        let outcomes = self.metrics.iter().map(|prepared| match &prepared.metric {
            Scorer::Computing(metric) => {
                let start = Instant::now();
                let score = metric.score(input);
                Some(prepared.outcome(score, start.elapsed()))
            }
            Scorer::Asking(_) => None,
        });
        outcomes.collect()
    }

    /// The outcomes where the conversation is not complete: each metric is an error, because what is missing could change
    /// every verdict.
    pub fn incomplete(&self, problem: &str) -> Vec<MetricOutcome> {
        let outcomes = self.metrics.iter().map(|prepared| {
            let error = MetricError::Incomplete {
                metric: prepared.name().to_owned(),
                problem: problem.to_owned(),
            };
            prepared.outcome(Err(error), Duration::ZERO)
        });
        outcomes.collect()
    }

    /// Completes the outcomes of [`compute`](Self::compute) with those of the asking metrics, which run concurrently.
    /// An asking metric with an earlier outcome in `kept`, which has the order of all metrics, keeps it.
    /// One that reads a masked text is an error, also instead of a kept outcome, unless it accepts that.
    /// `gates_met` says whether the gates outside of this list were met.
    pub async fn ask(
        &self,
        masked: &MaskedInput<'_>,
        computed: Vec<Option<MetricOutcome>>,
        kept: &[Option<MetricOutcome>],
        asked: &Asked<'_>,
        gates_met: bool,
    ) -> Vec<MetricOutcome> {
        if computed.iter().all(Option::is_some) {
            return computed.into_iter().flatten().collect();
        }
        let (calls, turns) = (masked.calls(), masked.conversation());
        let input = &masked.input(&calls, turns.as_deref());
        let gates_met = gates_met && computed.iter().flatten().all(MetricOutcome::is_met);
        let outcomes =
            self.metrics
                .iter()
                .zip(computed)
                .enumerate()
                .map(
                    async |(place, (prepared, computed))| match (computed, &prepared.metric) {
                        (Some(outcome), _) => Some(outcome),
                        (None, Scorer::Asking(_))
                            if prepared.when == Some(MetricCondition::GatesPassed) && !gates_met =>
                        {
                            Some(prepared.blank(Verdict::Skipped, Duration::ZERO))
                        }
                        (None, Scorer::Asking(metric)) => {
                            if let Some(error) = prepared.hidden(metric.as_ref(), input, masked) {
                                return Some(prepared.outcome(Err(error), Duration::ZERO));
                            }
                            if let Some(Some(kept)) = kept.get(place) {
                                return Some(kept.clone());
                            }
                            let start = Instant::now();
                            let score = metric.score(input, asked).await;
                            Some(prepared.outcome(score, start.elapsed()))
                        }
                        (None, Scorer::Computing(_)) => None,
                    },
                );
        join_all(outcomes).await.into_iter().flatten().collect()
    }

    /// Whether a metric calls a model or runs a program.
    pub fn asks(&self) -> bool {
        self.metrics
            .iter()
            .any(|prepared| matches!(prepared.metric, Scorer::Asking(_)))
    }
}

fn prepare(config: &MetricConfig, subject: Subject, number: u32) -> Result<Scorer, ConfigProblem> {
    let name = config.name();
    let fits = match (config, subject) {
        (MetricConfig::Standard(metric), Subject::Conversation) => metric.metric.fits_conversations(),
        (MetricConfig::Rag(_), subject) => subject == Subject::Answer,
        (MetricConfig::GoalSuccess(_), subject) => subject == Subject::Conversation,
        (MetricConfig::Standard(_) | MetricConfig::Geval(_) | MetricConfig::Code(_), _) => true,
    };
    if !fits {
        let problem = match subject {
            Subject::Answer => format!("`{name}` measures a conversation, not an answer"),
            Subject::Conversation => format!("`{name}` measures an answer, not a conversation"),
        };
        return Err(problem.into());
    }
    Ok(match config {
        MetricConfig::Standard(standard) if standard.metric.needs_judge() => {
            Scorer::Asking(Box::new(Jury::new(config, subject, number)?))
        }
        MetricConfig::Standard(standard) if standard.metric == StandardMetricName::Similar => {
            Scorer::Asking(Box::new(Similar::new(standard)?))
        }
        MetricConfig::Standard(standard) if standard.metric.is_text_score() => {
            Scorer::Computing(Box::new(text_score::TextScore::new(standard)?))
        }
        MetricConfig::Standard(standard) => {
            Scorer::Computing(Box::new(checks::StandardCheck::new(standard)?))
        }
        MetricConfig::Geval(_) | MetricConfig::Rag(_) | MetricConfig::GoalSuccess(_) => {
            Scorer::Asking(Box::new(Jury::new(config, subject, number)?))
        }
        MetricConfig::Code(code) => Scorer::Asking(Box::new(CodeGrader::new(code))),
    })
}

impl PreparedMetric {
    fn name(&self) -> &str {
        match &self.metric {
            Scorer::Computing(metric) => metric.name(),
            Scorer::Asking(metric) => metric.name(),
        }
    }

    /// The error of a metric that reads a masked text.
    fn hidden(
        &self,
        metric: &dyn AskingMetric,
        input: &EvalInput<'_>,
        masked: &MaskedInput<'_>,
    ) -> Option<MetricError> {
        if self.on_masked == OnMasked::Accept {
            return None;
        }
        let fields = self.masked_fields.iter().map(|field| format!("`{field}`"));
        let texts = masked.masked(&metric.reads(input));
        let places: Vec<String> = fields.chain(texts.into_iter().map(ToString::to_string)).collect();
        (!places.is_empty()).then(|| MetricError::Masked {
            metric: self.name().to_owned(),
            places: places.join(", "),
        })
    }

    fn outcome(&self, score: Result<Score, MetricError>, evaluation_time: Duration) -> MetricOutcome {
        match score.and_then(|score| self.in_range(score)) {
            Ok(score) => MetricOutcome {
                score: Some(score.value),
                reason: score.reason,
                evidence: score.evidence,
                retries: score.retries,
                missing_votes: score.missing_votes,
                ..self.blank(
                    verdict(score.value, score.passed, self.threshold),
                    evaluation_time,
                )
            },
            Err(error) => {
                let verdict = if self.fail_on_error {
                    Verdict::Failed
                } else {
                    Verdict::Error
                };
                let missing_votes = match &error {
                    MetricError::NotJudged { missing_votes, .. } => missing_votes.clone(),
                    _ => Vec::new(),
                };
                MetricOutcome {
                    error: Some(error),
                    missing_votes,
                    ..self.blank(verdict, evaluation_time)
                }
            }
        }
    }

    fn blank(&self, verdict: Verdict, evaluation_time: Duration) -> MetricOutcome {
        MetricOutcome {
            name: self.name().to_owned(),
            kind: self.kind,
            score: None,
            threshold: self.threshold,
            verdict,
            reason: None,
            error: None,
            evidence: None,
            retries: 0,
            missing_votes: Vec::new(),
            evaluation_time,
        }
    }

    fn in_range(&self, score: Score) -> Result<Score, MetricError> {
        if (0.0..=1.0).contains(&score.value) {
            return Ok(score);
        }
        Err(MetricError::NotAScore {
            metric: self.name().to_owned(),
            problem: format!("{} is not between 0 and 1", score.value),
        })
    }
}

/// Combines a metric's own verdict and its threshold: both must pass, and a metric with neither does not gate.
fn verdict(score: f64, passed: Option<bool>, threshold: Option<f64>) -> Verdict {
    let reached = threshold.map(|threshold| score >= threshold);
    match (passed, reached) {
        (None, None) => Verdict::NotGated,
        (Some(false), _) | (_, Some(false)) => Verdict::Failed,
        _ => Verdict::Passed,
    }
}
