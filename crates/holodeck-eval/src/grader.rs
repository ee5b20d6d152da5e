//! The metrics of a configuration, made ready once, and their verdicts.

use std::time::{Duration, Instant};

use holodeck_model::MetricConfig;
use thiserror::Error;

use crate::{EvalInput, Metric, MetricError, Need, Score, checks, judged, text_score};

/// What a metric says about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The gate was met.
    Passed,
    /// The gate was missed.
    Failed,
    /// A score without a threshold: it never fails a case and never passes one.
    NotGated,
    /// There is no score.
    Error,
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
}

impl MetricKind {
    /// The type as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Geval => "geval",
            Self::Rag => "rag",
            Self::Code => "code",
        }
    }
}

/// One metric's result for one answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetricOutcome {
    /// Name under which the score is reported; two metrics may share it.
    pub name: String,
    /// The `type` of the metric.
    pub kind: MetricKind,
    /// The score, 0 to 1; absent when it could not be computed.
    pub score: Option<f64>,
    /// What the score must reach.
    pub threshold: Option<f64>,
    /// What follows from it.
    pub verdict: Verdict,
    /// Why the score is what it is.
    pub reason: Option<String>,
    /// Why there is no score; present exactly when the verdict is [`Verdict::Error`].
    pub error: Option<MetricError>,
    /// How long it took to compute.
    pub evaluation_time: Duration,
}

/// A metric that cannot be made ready. The YAML checks find these first, with their place in the file.
#[derive(Debug, Error)]
#[error("metric {index} (`{metric}`): {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Place in the list, from 0.
    pub index: usize,
    /// Its name.
    pub metric: String,
    /// What is wrong.
    pub problem: String,
}

/// The enabled metrics of a list, with their expressions and schemas compiled.
#[derive(Default)]
pub struct Grader {
    metrics: Vec<Prepared>,
}

struct Prepared {
    metric: Box<dyn Metric>,
    kind: MetricKind,
    threshold: Option<f64>,
    gates: bool,
}

impl Grader {
    /// Makes the enabled metrics ready, in their order.
    pub fn new(configs: &[MetricConfig]) -> Result<Self, ConfigError> {
        let enabled = configs.iter().enumerate().filter(|(_, config)| config.enabled());
        let metrics = enabled.map(|(index, config)| {
            let metric = prepare(config).map_err(|problem| ConfigError {
                index,
                metric: config.name().to_owned(),
                problem,
            })?;
            let kind = match config {
                MetricConfig::Standard(_) => MetricKind::Standard,
                MetricConfig::Geval(_) => MetricKind::Geval,
                MetricConfig::Rag(_) => MetricKind::Rag,
                MetricConfig::Code(_) => MetricKind::Code,
            };
            Ok(Prepared {
                metric,
                kind,
                threshold: config.threshold(),
                gates: config.gates(),
            })
        });
        Ok(Self {
            metrics: metrics.collect::<Result<_, _>>()?,
        })
    }

    /// Grades an answer: one outcome for each metric, in their order.
    pub fn grade(&self, input: &EvalInput<'_>) -> Vec<MetricOutcome> {
        self.metrics
            .iter()
            .map(|prepared| prepared.grade(input))
            .collect()
    }

    /// Whether there is nothing to grade with.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// Whether some metric decides a test rather than being reported only.
    pub fn gates(&self) -> bool {
        self.metrics.iter().any(|prepared| prepared.gates)
    }

    /// The names of the metrics that need this, in their order.
    pub fn needing(&self, need: Need) -> impl Iterator<Item = &str> {
        let needing = self
            .metrics
            .iter()
            .filter(move |prepared| prepared.metric.needs().contains(&need));
        needing.map(|prepared| prepared.metric.name())
    }
}

fn prepare(config: &MetricConfig) -> Result<Box<dyn Metric>, String> {
    Ok(match config {
        MetricConfig::Standard(standard) if standard.metric.needs_judge() => {
            Box::new(judged::Judged::new(config))
        }
        MetricConfig::Standard(standard) if standard.metric.is_text_score() => {
            Box::new(text_score::TextScore::new(standard)?)
        }
        MetricConfig::Standard(standard) => Box::new(checks::StandardCheck::new(standard)?),
        MetricConfig::Geval(_) | MetricConfig::Rag(_) => Box::new(judged::Judged::new(config)),
        MetricConfig::Code(_) => Box::new(judged::CodeGrader::new(config)),
    })
}

impl Prepared {
    fn grade(&self, input: &EvalInput<'_>) -> MetricOutcome {
        let start = Instant::now();
        let result = self.metric.score(input).and_then(|score| self.in_range(score));
        let evaluation_time = start.elapsed();
        let name = self.metric.name().to_owned();
        let (kind, threshold) = (self.kind, self.threshold);
        match result {
            Ok(Score {
                value,
                passed,
                reason,
            }) => {
                let verdict = verdict(value, passed, threshold);
                MetricOutcome {
                    name,
                    kind,
                    score: Some(value),
                    threshold,
                    verdict,
                    reason,
                    error: None,
                    evaluation_time,
                }
            }
            Err(error) => MetricOutcome {
                name,
                kind,
                score: None,
                threshold,
                verdict: Verdict::Error,
                reason: None,
                error: Some(error),
                evaluation_time,
            },
        }
    }

    fn in_range(&self, score: Score) -> Result<Score, MetricError> {
        if (0.0..=1.0).contains(&score.value) {
            return Ok(score);
        }
        Err(MetricError::NotAScore {
            metric: self.metric.name().to_owned(),
            value: score.value,
        })
    }
}

/// A metric's own verdict must hold, and a threshold must be reached; at least one of them gates.
fn verdict(score: f64, passed: Option<bool>, threshold: Option<f64>) -> Verdict {
    let reached = threshold.map(|threshold| score >= threshold);
    match (passed, reached) {
        (None, None) => Verdict::NotGated,
        (Some(false), _) | (_, Some(false)) => Verdict::Failed,
        _ => Verdict::Passed,
    }
}
