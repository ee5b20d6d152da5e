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
use holodeck_model::{Decimal, LoopJudge, MetricConfig, OnMasked, Redactor};
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
    /// 0–100; the error says why there is none.
    score: Result<f64, String>,
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
                score: Ok(*score),
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
        match mean(basis) {
            Ok(score) => assessment.score = Some(score),
            Err(problem) => assessment.invalid = Some(problem),
        }
        assessment.noise = noise(basis);
        let named = parts
            .iter()
            .filter_map(|part| Some((part.name.clone(), *part.score.as_ref().ok()?)));
        assessment.metrics = named.collect();
        if let Some(signals) = signals {
            if from_signals.is_none() {
                assessment.score = assessment.score.map(|score| raised(score, signals.bonus));
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
                (Some(score), None) => Ok(points(score)),
                // The invalid score of the loop; every other error is a failure of the scorer.
                (
                    _,
                    Some(
                        error @ (MetricError::NotAScore { .. }
                        | MetricError::NotJudged {
                            kind: JudgeErrorKind::NotAScore,
                            ..
                        }),
                    ),
                ) => Err(error.to_string()),
                (_, Some(error)) => return Err(ScorerError::new(error.to_string())),
                (None, None) => return Err(ScorerError::new(format!("`{}` gave no score", outcome.name))),
            };
            if score.as_ref().map_or(true, |score| *score < 100.0) {
                assessment
                    .improvements
                    .push(describe(&outcome, score.as_ref().ok()));
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
            if let Some(verdict) = verdict {
                assessment.unachievable = verdict.unachievable;
                assessment.improvements.extend(verdict.improvements);
                assessment.reason = Some(verdict.reason);
            }
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

    /// The mean score of the judge, with the verdict that is closest to it. Without a valid score there is no verdict.
    async fn judge(
        &self,
        judge: &LoopJudge,
        turn: &TurnRecord,
    ) -> Result<(Part, Option<QualityVerdict>), ScorerError> {
        let part = |score, noise| Part {
            name: "judge".to_owned(),
            score,
            noise,
        };
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
            match self.ask_twice(question).await? {
                Ok(verdict) => verdicts.push(verdict),
                Err(problem) => return Ok((part(Err(problem), None), None)),
            }
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
        Ok((part(Ok(mean), noise), Some(verdict)))
    }

    /// Asks once more if another attempt can help. The inner error says why the score is none.
    async fn ask_twice(
        &self,
        question: QualityQuestion<'_>,
    ) -> Result<Result<QualityVerdict, String>, ScorerError> {
        use JudgeErrorKind::{NotAScore, Retryable};
        let mut asked = question.ask(self.judge.as_ref()).await;
        if let Err(JudgeError {
            kind: Retryable | NotAScore,
            ..
        }) = &asked
        {
            asked = question.ask(self.judge.as_ref()).await;
        }
        match asked {
            Ok(verdict) => Ok(Ok(verdict)),
            Err(error) => {
                let reason = format!("the judge gave no score: {error}");
                match error.kind {
                    NotAScore => Ok(Err(reason)),
                    _ => Err(ScorerError::new(reason)),
                }
            }
        }
    }
}

/// A score of 0–1 in points, as a person computes them: 0.58 is 58.
pub(super) fn points(score: f64) -> f64 {
    Decimal::from_f64(score).map_or(f64::NAN, |score| score.scaled(2).to_f64())
}

/// A score with a bonus, at most 100.
fn raised(score: f64, bonus: f64) -> f64 {
    match (Decimal::from_f64(score), Decimal::from_f64(bonus)) {
        (Some(score), Some(bonus)) => score.plus(&bonus).to_f64().min(100.0),
        _ => f64::NAN,
    }
}

fn describe(outcome: &MetricOutcome, score: Option<&f64>) -> String {
    let score = score.map_or_else(
        || "an invalid score".to_owned(),
        |score| format!("{score:.0} of 100"),
    );
    match &outcome.reason {
        Some(reason) => format!("{} ({score}): {reason}", outcome.name),
        None => format!("{}: {score}", outcome.name),
    }
}

/// The mean of all parts; the error says which ones have no score.
fn mean(parts: &[Part]) -> Result<f64, String> {
    let problems = parts.iter().filter_map(|part| part.score.as_ref().err());
    let problems: Vec<&str> = problems.map(String::as_str).collect();
    let scores: Vec<f64> = parts
        .iter()
        .filter_map(|part| part.score.as_ref().ok().copied())
        .collect();
    match Decimal::mean(&scores).filter(|_| problems.is_empty()) {
        Some(mean) => Ok(mean),
        None => Err(problems.join("; ")),
    }
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
    let mean = Decimal::mean(values).unwrap_or_default();
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
            score: Err(String::new()),
            noise: Some(100.0 * error),
        })
        .collect();
    noise(&parts)
}

#[cfg(test)]
mod tests;
