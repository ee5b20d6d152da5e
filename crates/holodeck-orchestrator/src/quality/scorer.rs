//! Scores the answers of an agent as `quality_loop.scorer` says: metrics, a judge, and commands.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use holodeck_eval::{
    Asked, CountingJudge, JudgeError, JudgeErrorKind, MetricError, MetricOutcome, Programs, QualityQuestion,
    QualityVerdict, Verdict,
};
use holodeck_judging::{Answer, Judging, TurnGrader};
use holodeck_model::{LoopJudge, MetricConfig, OnMasked, Redactor};
use holodeck_turn::TurnRecord;
use serde_json::Value;

use super::{Assessment, LoopOutput, Scorer, ScorerError, Signals};

/// The metrics, judge and signals that score the answers of an agent.
pub struct ScorerParts {
    metrics: Vec<MetricConfig>,
    grader: TurnGrader,
    judge: Option<LoopJudge>,
    signals: Option<Signals>,
    programs: Arc<dyn Programs>,
    redactor: Arc<Redactor>,
    on_masked: OnMasked,
}

impl ScorerParts {
    /// Prepares the metrics; the error names one that can't be used. A metric that is disabled is left out. `on_masked`
    /// decides what becomes of a score if a text that was judged held a secret and was masked.
    pub fn new(
        metrics: Vec<MetricConfig>,
        judge: Option<LoopJudge>,
        signals: Option<Signals>,
        programs: Arc<dyn Programs>,
        (redactor, on_masked): (Arc<Redactor>, OnMasked),
    ) -> Result<Self, String> {
        let metrics: Vec<MetricConfig> = metrics.into_iter().filter(MetricConfig::enabled).collect();
        Ok(Self {
            grader: TurnGrader::new(&metrics, on_masked, &redactor).map_err(|error| error.to_string())?,
            metrics,
            judge,
            signals,
            programs,
            redactor,
            on_masked,
        })
    }

    /// The scorer of the answers to one task.
    pub fn for_task(
        self: &Arc<Self>,
        task: impl Into<String>,
        judge: Arc<dyn CountingJudge>,
    ) -> AnswerScorer {
        AnswerScorer {
            parts: Arc::clone(self),
            task: task.into(),
            judge,
            scored: AtomicU32::new(0),
        }
    }
}

/// Scores the answers to one task.
pub struct AnswerScorer {
    parts: Arc<ScorerParts>,
    task: String,
    judge: Arc<dyn CountingJudge>,
    scored: AtomicU32,
}

/// One part of a score.
struct Part {
    name: String,
    /// 0–100; `None` if it is not a number.
    score: Option<f64>,
    noise: Option<f64>,
}

#[async_trait]
impl Scorer for AnswerScorer {
    async fn score(&self, output: &LoopOutput) -> Result<Assessment, ScorerError> {
        self.judge.begin(self.scored.fetch_add(1, Ordering::Relaxed));
        let turn = output.turn.clone().unwrap_or_else(|| {
            let mut turn = TurnRecord::default();
            turn.result.response.clone_from(&output.text);
            Arc::new(turn)
        });
        let mut assessment = Assessment::default();
        let mut parts = Vec::new();
        let scored = self.score_parts(&turn, &mut parts, &mut assessment).await;
        assessment.usage = self.judge.take_spent().some().map(Into::into);
        scored?;
        let signals = match &self.parts.signals {
            Some(signals) => Some(signals.run().await?),
            None => None,
        };
        let from_signals = signals.as_ref().filter(|_| parts.is_empty()).map(|signals| {
            let scores = signals.scores.iter();
            let parts = scores.map(|(name, score)| Part {
                name: name.clone(),
                score: Some(*score),
                noise: Some(0.0),
            });
            parts.collect::<Vec<_>>()
        });
        let basis = from_signals.as_ref().unwrap_or(&parts);
        if basis.is_empty() {
            return Err(ScorerError::new(
                "nothing scored the answer: every metric was skipped",
            ));
        }
        assessment.score = mean(basis);
        assessment.noise = noise(basis);
        let named = parts
            .iter()
            .filter_map(|part| Some((part.name.clone(), part.score?)));
        assessment.metrics = named.collect();
        if let Some(signals) = signals {
            if from_signals.is_none() {
                assessment.score = assessment.score.map(|score| (score + signals.bonus).min(100.0));
            }
            if let Some(cap) = signals.cap {
                assessment.score = assessment.score.map(|score| score.min(cap));
            }
            assessment.metrics.extend(signals.scores);
            // What can be measured comes first.
            assessment.improvements.splice(0..0, signals.improvements);
        }
        Ok(assessment)
    }
}

impl AnswerScorer {
    async fn score_parts(
        &self,
        turn: &TurnRecord,
        parts: &mut Vec<Part>,
        assessment: &mut Assessment,
    ) -> Result<(), ScorerError> {
        for (outcome, config) in self.outcomes(turn).await.into_iter().zip(&self.parts.metrics) {
            if outcome.verdict == Verdict::Skipped {
                continue;
            }
            let score = match (outcome.score, &outcome.error) {
                (Some(score), None) => Some(100.0 * score),
                // The invalid score of the loop; every other error is a failure of the scorer.
                (_, Some(MetricError::NotAScore { .. })) => None,
                (_, Some(error)) => return Err(ScorerError::new(error.to_string())),
                (None, None) => return Err(ScorerError::new(format!("`{}` gave no score", outcome.name))),
            };
            if score.is_none_or(|score| score < 100.0) {
                assessment.improvements.push(describe(&outcome, score));
            }
            if let (Some(reason), None) = (&outcome.reason, &assessment.reason) {
                assessment.reason = Some(reason.clone());
            }
            parts.push(Part {
                noise: metric_noise(config, &outcome),
                name: outcome.name,
                score,
            });
        }
        if let Some(judge) = &self.parts.judge {
            let (part, verdict) = self.judge(judge, turn).await?;
            parts.push(part);
            assessment.unachievable = verdict.unachievable;
            assessment.improvements.extend(verdict.improvements);
            assessment.reason = Some(verdict.reason);
        }
        Ok(())
    }

    async fn outcomes(&self, turn: &TurnRecord) -> Vec<MetricOutcome> {
        let mut answer = Answer::of_turn(turn);
        answer.question = &self.task;
        let judging = Judging {
            asked: Asked {
                judge: self.judge.as_ref(),
                programs: self.parts.programs.as_ref(),
            },
            kept: &[],
            gates_met: true,
        };
        let checks = self.parts.grader.check(&answer);
        self.parts.grader.judge(&answer, checks, judging).await
    }

    /// The mean score of the judge, with the verdict that is closest to it.
    async fn judge(
        &self,
        judge: &LoopJudge,
        turn: &TurnRecord,
    ) -> Result<(Part, QualityVerdict), ScorerError> {
        let redactor = &self.parts.redactor;
        let (task, answer) = (redactor.text(&self.task), redactor.text(&turn.result.response));
        let criteria = redactor.text(&judge.criteria);
        let is_masked = |text: &Cow<'_, str>| matches!(text, Cow::Owned(_));
        let texts = [
            ("`criteria`", is_masked(&criteria)),
            ("the task", is_masked(&task)),
            ("the answer", is_masked(&answer) || turn.redacted.answer),
        ];
        let masked = texts.into_iter().filter(|(_, is_masked)| *is_masked);
        let masked: Vec<&str> = masked.map(|(name, _)| name).collect();
        if !masked.is_empty() && self.parts.on_masked == OnMasked::Error {
            return Err(ScorerError::new(format!(
                "the judge gave no score: {} held a secret and was masked, and a score of the rest says nothing about it",
                masked.join(", ")
            )));
        }
        let mut verdicts = Vec::new();
        for repeat in 1..=judge.judge_repeats.unwrap_or(1).max(1) {
            let question = QualityQuestion {
                criteria: &criteria,
                task: &task,
                answer: &answer,
                model: judge.model.as_ref(),
                repeat,
            };
            verdicts.push(self.ask_twice(question).await?);
        }
        let scores: Vec<f64> = verdicts.iter().map(|verdict| verdict.score).collect();
        let (mean, noise) = mean_and_error(&scores);
        let hopeless = verdicts.iter().filter(|verdict| verdict.unachievable).count();
        let hopeless = hopeless.saturating_mul(2) > verdicts.len();
        let closest = verdicts.into_iter().min_by(|a, b| {
            let distance = |verdict: &QualityVerdict| (verdict.score - mean).abs();
            distance(a).total_cmp(&distance(b))
        });
        let Some(mut verdict) = closest else {
            return Err(ScorerError::new("the judge was not asked"));
        };
        verdict.unachievable = hopeless;
        let part = Part {
            name: "judge".to_owned(),
            score: Some(mean),
            noise,
        };
        Ok((part, verdict))
    }

    /// Asks once more if another attempt can help.
    async fn ask_twice(&self, question: QualityQuestion<'_>) -> Result<QualityVerdict, ScorerError> {
        let failed = |error: JudgeError| ScorerError::new(format!("the judge gave no score: {error}"));
        match question.ask(self.judge.as_ref()).await {
            Err(JudgeError {
                kind: JudgeErrorKind::Retryable,
                ..
            }) => question.ask(self.judge.as_ref()).await.map_err(failed),
            other => other.map_err(failed),
        }
    }
}

fn describe(outcome: &MetricOutcome, score: Option<f64>) -> String {
    let score = score.map_or_else(
        || "an invalid score".to_owned(),
        |score| format!("{score:.0} of 100"),
    );
    match &outcome.reason {
        Some(reason) => format!("{} ({score}): {reason}", outcome.name),
        None => format!("{}: {score}", outcome.name),
    }
}

/// The mean of all parts; invalid if one is.
fn mean(parts: &[Part]) -> Option<f64> {
    let scores: Option<Vec<f64>> = parts.iter().map(|part| part.score).collect();
    Some(mean_and_error(&scores?).0)
}

/// The noise of the mean; unknown if that of a part is.
#[expect(clippy::cast_precision_loss, reason = "there are few parts")]
fn noise(parts: &[Part]) -> Option<f64> {
    let noises: Option<Vec<f64>> = parts.iter().map(|part| part.noise).collect();
    let squares: f64 = noises?.iter().map(|noise| noise * noise).sum();
    Some(squares.sqrt() / parts.len() as f64)
}

/// The mean and its standard error, which one value does not have.
#[expect(clippy::cast_precision_loss, reason = "there are few repetitions")]
fn mean_and_error(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    if values.len() < 2 {
        return (mean, None);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, Some((squares / (count - 1.0) / count).sqrt()))
}

/// The standard error of a metric, in points: 0 for one that is computed, that of the repetitions of a judge, and
/// unknown otherwise.
fn metric_noise(config: &MetricConfig, outcome: &MetricOutcome) -> Option<f64> {
    if config.judging().is_none() {
        return (!matches!(config, MetricConfig::Code(_))).then_some(0.0);
    }
    let judges = outcome.evidence.as_ref()?.get("judges")?.as_array()?;
    let errors: Option<Vec<f64>> = judges
        .iter()
        .filter(|judge| judge.get("score").is_some_and(Value::is_number))
        .map(|judge| {
            let scores = judge.get("scores")?.as_array()?;
            let scores: Vec<f64> = scores.iter().filter_map(Value::as_f64).collect();
            mean_and_error(&scores).1
        })
        .collect();
    let errors = errors.filter(|errors| !errors.is_empty())?;
    let parts: Vec<Part> = errors
        .into_iter()
        .map(|error| Part {
            name: String::new(),
            score: None,
            noise: Some(100.0 * error),
        })
        .collect();
    noise(&parts)
}

#[cfg(test)]
mod tests;
