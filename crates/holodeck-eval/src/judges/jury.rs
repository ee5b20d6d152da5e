//! Several judges, repetitions and retries of one metric.

use async_trait::async_trait;
use futures::future::join_all;
use holodeck_model::{Aggregate, Decimal, Judging, MetricConfig, MissingVote, ModelConfig, Opinion};
use serde::Serialize;
use serde_json::{Value, json};

use super::{JudgedMetric, Subject, questions::Questions};
use crate::{
    Asked, AskingMetric, EvalInput, InputText, JudgeErrorKind, MetricError, Score,
    config_problem::ConfigProblem,
};

/// A judged metric with its judges: one, or a jury.
pub(crate) struct Jury {
    name: String,
    /// The name in records, where a metric of an answer and one of a conversation may have the same.
    label: String,
    config: MetricConfig,
    metric: Box<dyn JudgedMetric>,
}

/// The result of one juror.
#[derive(Serialize)]
struct Juror {
    /// The model; absent for the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The median of its scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    /// Whether it reaches the threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed: Option<bool>,
    /// Its scores, if it judged the same answer several times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scores: Vec<f64>,
    /// How many of these scores lead to another verdict than the juror's.
    #[serde(skip_serializing_if = "Option::is_none")]
    differing: Option<usize>,
    /// Why it has no score.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Who was asked for what, if so.
    #[serde(skip)]
    asked: Option<String>,
    #[serde(skip)]
    failure: Option<JudgeErrorKind>,
    #[serde(skip)]
    reason: Option<String>,
    #[serde(skip)]
    evidence: Option<Value>,
    #[serde(skip)]
    retries: u32,
}

impl Jury {
    /// `number` counts the metrics with this name, from 1.
    pub(crate) fn new(config: &MetricConfig, subject: Subject, number: u32) -> Result<Self, ConfigProblem> {
        let name = config.name().to_owned();
        let jury = Self {
            label: match (subject, number) {
                (Subject::Answer, 1) => name.clone(),
                (Subject::Answer, number) => format!("{name}{}", Opinion::Metric.mark(number)),
                (Subject::Conversation, 1) => format!("conversation · {name}"),
                (Subject::Conversation, number) => {
                    format!("conversation · {name}{}", Opinion::Metric.mark(number))
                }
            },
            name,
            metric: super::prepare(config, subject)?,
            config: config.clone(),
        };
        if let Some(judging) = config.judging()
            && judging.min_judges > judging.judges.len().max(1)
        {
            let (needed, judges) = (judging.min_judges, judging.judges.len().max(1));
            return Err(ConfigProblem::of(
                "min_judges",
                format!("`min_judges` is {needed}, and there are {judges} judges"),
            ));
        }
        Ok(jury)
    }

    /// The scores of one judge for the same answer.
    async fn juror(
        &self,
        input: &EvalInput<'_>,
        asked: &Asked<'_>,
        judging: &Judging<'_>,
        place: usize,
    ) -> Result<Juror, MetricError> {
        let model: Option<&ModelConfig> = judging.judges.get(place);
        let mut scores = Vec::new();
        let mut first: Option<Score> = None;
        let mut retries = 0;
        for repeat in 1..=judging.repeats {
            let mut attempt = 1;
            loop {
                let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
                let round = [
                    (judging.judges.len() > 1).then(|| Opinion::Judge.mark(number)),
                    (repeat > 1).then(|| Opinion::Repeat.mark(repeat)),
                    (attempt > 1).then(|| format!(" · attempt {attempt}")),
                ];
                let round: String = round.into_iter().flatten().collect();
                let questions = Questions {
                    judge: asked.judge,
                    metric: &self.name,
                    label: &self.label,
                    model,
                    timeout: judging.timeout,
                    round: &round,
                };
                match self.metric.judge(input, &questions).await {
                    Ok(score) => {
                        scores.push(score.value);
                        first.get_or_insert(score);
                        break;
                    }
                    Err(MetricError::NotJudged {
                        kind: JudgeErrorKind::Retryable | JudgeErrorKind::NotAScore,
                        ..
                    }) if attempt <= judging.retries => {
                        attempt += 1;
                        retries += 1;
                    }
                    // Another error is that of a missing text, which is missing for every judge.
                    Err(error) => match error.of_part("repeat", repeat, judging.repeats) {
                        MetricError::NotJudged {
                            asked, reason, kind, ..
                        } => {
                            return Ok(Juror {
                                retries,
                                asked,
                                error: Some(reason),
                                failure: Some(kind),
                                ..Juror::named(model)
                            });
                        }
                        other => return Err(other),
                    },
                }
            }
        }
        let score = median(&scores);
        let passes = |score: f64| self.config.threshold().map(|threshold| score >= threshold);
        let votes = |passed| {
            scores
                .iter()
                .filter(|&&score| passes(score) == Some(passed))
                .count()
        };
        let (yes, no) = (votes(true), votes(false));
        // A tie of repeats fails, as one of judges does.
        let passed = (yes + no > 0).then_some(yes > no);
        let differing = scores.iter().filter(|&&score| passes(score) != passed).count();
        let several = judging.repeats > 1;
        let first = first.unwrap_or_else(|| Score::graded(0.0));
        Ok(Juror {
            score,
            passed,
            differing: (several && passed.is_some()).then_some(differing),
            scores: if several { scores } else { Vec::new() },
            reason: if several && yes + no > 0 && yes == no {
                let tie = format!("{yes} of {} repeats pass it, a tie, which fails", yes + no);
                Some(
                    first
                        .reason
                        .map_or_else(|| tie.clone(), |reason| format!("{tie}; {reason}")),
                )
            } else {
                first.reason
            },
            evidence: first.evidence,
            retries,
            ..Juror::named(model)
        })
    }

    fn not_judged(&self, reason: String) -> MetricError {
        self.failed(None, reason, JudgeErrorKind::Final, Vec::new())
    }

    fn failed(
        &self,
        asked: Option<String>,
        reason: String,
        kind: JudgeErrorKind,
        missing_votes: Vec<MissingVote>,
    ) -> MetricError {
        MetricError::NotJudged {
            name: self.name.clone(),
            asked,
            reason,
            kind,
            missing_votes,
        }
    }
}

impl Juror {
    fn named(model: Option<&ModelConfig>) -> Self {
        Self {
            model: model.map(|model| model.name.clone()),
            score: None,
            passed: None,
            scores: Vec::new(),
            differing: None,
            error: None,
            asked: None,
            failure: None,
            reason: None,
            evidence: None,
            retries: 0,
        }
    }

    fn label(&self) -> &str {
        self.model.as_deref().unwrap_or("the judge")
    }

    fn into_score(self, value: f64) -> Score {
        let noise = (!self.scores.is_empty()).then(|| json!({"judges": [&self]}));
        Score {
            // One score is compared with the threshold alone.
            passed: self.passed.filter(|_| noise.is_some()),
            reason: self.reason,
            evidence: noise.or(self.evidence),
            retries: self.retries,
            ..Score::graded(value)
        }
    }
}

#[async_trait]
impl AskingMetric for Jury {
    fn name(&self) -> &str {
        &self.name
    }

    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText> {
        self.metric.reads(input)
    }

    async fn score(&self, input: &EvalInput<'_>, asked: &Asked<'_>) -> Result<Score, MetricError> {
        let Some(judging) = self.config.judging() else {
            return Err(self.not_judged("the metric names no judge".to_owned()));
        };
        let count = judging.judges.len().max(1);
        let jurors = join_all((0..count).map(|place| self.juror(input, asked, &judging, place))).await;
        let mut jurors: Vec<Juror> = jurors.into_iter().collect::<Result<_, _>>()?;
        if count == 1 {
            let Some(juror) = jurors.pop() else {
                return Err(self.not_judged("there is no judge".to_owned()));
            };
            return match (juror.score, juror.error.clone()) {
                (Some(value), None) => Ok(juror.into_score(value)),
                (_, error) => Err(self.failed(
                    juror.asked,
                    error.unwrap_or_else(|| "there is no score".to_owned()),
                    juror.failure.unwrap_or(JudgeErrorKind::Final),
                    Vec::new(),
                )),
            };
        }
        let retries = jurors.iter().map(|juror| juror.retries).sum();
        let voting: Vec<&Juror> = jurors.iter().filter(|juror| juror.score.is_some()).collect();
        let errors: Vec<String> = jurors
            .iter()
            .filter_map(|juror| Some(format!("{}: {}", juror.label(), juror.error.as_ref()?)))
            .collect();
        let missing = missing_votes(&jurors);
        let fails_with = |kind| jurors.iter().any(|juror| juror.failure == Some(kind));
        // A vote that is not in the recording may have decided otherwise than the others.
        if fails_with(JudgeErrorKind::RecordingMiss) {
            return Err(self.failed(None, errors.join("; "), JudgeErrorKind::RecordingMiss, missing));
        }
        if voting.len() < judging.min_judges {
            let all_are_no_scores = jurors
                .iter()
                .filter_map(|juror| juror.failure)
                .all(|kind| kind == JudgeErrorKind::NotAScore);
            let kind = if fails_with(JudgeErrorKind::Credentials) {
                JudgeErrorKind::Credentials
            } else if all_are_no_scores {
                JudgeErrorKind::NotAScore
            } else {
                JudgeErrorKind::Final
            };
            let reason = format!(
                "{} of {count} judges returned a verdict, {} are needed; {}",
                voting.len(),
                judging.min_judges,
                errors.join("; ")
            );
            return Err(self.failed(None, reason, kind, missing));
        }
        let scores: Vec<f64> = voting.iter().filter_map(|juror| juror.score).collect();
        let value = match judging.aggregate {
            Aggregate::Median => median(&scores),
            Aggregate::Mean => Decimal::mean(&scores),
        };
        let Some(value) = value else {
            return Err(self.not_judged("no judge returned a verdict".to_owned()));
        };
        let votes = |passed| voting.iter().filter(|juror| juror.passed == Some(passed)).count();
        let (yes, no) = (votes(true), votes(false));
        // A tie fails. With the mean, the threshold decides alone.
        let passed = (judging.aggregate == Aggregate::Median && yes + no > 0).then_some(yes > no);
        Ok(Score {
            passed,
            reason: Some(explain(&voting, &errors, (yes, no))),
            evidence: Some(json!({"judges": jurors})),
            retries,
            missing_votes: missing,
            ..Score::graded(value)
        })
    }
}

/// The jurors without a verdict.
fn missing_votes(jurors: &[Juror]) -> Vec<MissingVote> {
    let missing = jurors.iter().enumerate().filter_map(|(place, juror)| {
        Some(MissingVote {
            judge: juror.label().to_owned(),
            number: place + 1,
            reason: juror.error.clone()?,
        })
    });
    missing.collect()
}

/// The votes, who had no verdict, and the first reason of each side.
fn explain(voting: &[&Juror], errors: &[String], (yes, no): (usize, usize)) -> String {
    let mut parts = Vec::new();
    if yes + no > 0 {
        let tie = if yes == no { ", a tie, which fails" } else { "" };
        parts.push(format!("{yes} of {} judges pass it{tie}", yes + no));
    }
    for side in [Some(true), Some(false), None] {
        let juror = voting.iter().find(|juror| juror.passed == side);
        if let Some((juror, reason)) = juror.and_then(|juror| Some((juror, juror.reason.as_ref()?))) {
            parts.push(format!("{}: {reason}", juror.label()));
        }
    }
    if !errors.is_empty() {
        parts.push(format!("no verdict: {}", errors.join("; ")));
    }
    parts.join("; ")
}

/// The middle value; the mean of the two middle ones of an even number.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Decimal::mean(&[lower, upper])
}
