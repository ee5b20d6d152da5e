//! G-Eval: a judge with criteria of the user (Liu et al., 2023, arXiv:2303.16634).

use std::{fmt::Write as _, time::Duration};

use async_trait::async_trait;
use holodeck_model::{Decimal, EvalParam, GevalMetric, Opinion, RubricLevel};
use serde_json::json;

use super::{
    JudgedMetric, Subject,
    material::Material,
    questions::{Question, Questions, reason_text},
    ready_made::{ScoreAnswer, check_score, passages},
    template,
    transcript::{EXPLANATION, Transcript},
};
use crate::{
    EvalInput, InputText, Judge, JudgeErrorKind, MetricError, Score, VerdictFormat,
    config_problem::ConfigProblem,
};

/// The highest score. Rubrics are written for it.
const TOP: u32 = 10;

/// A judge with criteria of the user.
pub(super) struct Geval {
    name: String,
    criteria: String,
    steps: Option<Vec<String>>,
    params: Vec<EvalParam>,
    rubric: Option<Vec<RubricLevel>>,
    custom_prompt: Option<String>,
    samples: u32,
    strict: bool,
    include_reason: bool,
    subject: Subject,
}

impl Geval {
    pub(super) fn new(config: &GevalMetric, subject: Subject) -> Result<Self, ConfigProblem> {
        if let Some(prompt) = &config.custom_prompt {
            template::check_custom_prompt(prompt, subject)
                .map_err(|text| ConfigProblem::of("custom_prompt", text))?;
        }
        if let Some(rubric) = &config.rubric {
            check_rubric(rubric).map_err(|text| ConfigProblem::of("rubric", text))?;
        }
        Ok(Self {
            name: config.name.clone(),
            criteria: config.criteria.clone(),
            steps: config.evaluation_steps.clone().filter(|steps| !steps.is_empty()),
            params: config.evaluation_params.clone(),
            rubric: config.rubric.clone(),
            custom_prompt: config.custom_prompt.clone(),
            samples: config.samples.unwrap_or(1).max(1),
            strict: config.strict_mode,
            include_reason: config.include_reason.unwrap_or(true),
            subject,
        })
    }

    /// The steps of the file, else those that the judge derives from the criteria: once for all cases, so that all are
    /// judged by the same.
    async fn steps(&self, questions: &Questions<'_>) -> Result<Vec<String>, MetricError> {
        if let Some(steps) = &self.steps {
            return Ok(steps.clone());
        }
        let mut names: Vec<&str> = Vec::new();
        if self.subject == Subject::Conversation {
            names.push("the whole conversation of a user with an AI assistant, turn by turn");
        }
        names.extend(self.params.iter().filter_map(|param| self.describe(*param)));
        let prompt = format!(
            "Write three or four short steps by which a judge can evaluate a text by these criteria. The judge sees: {}. \
             Each step says what to look at and what to compare it with.\n\nCriteria: {}\n\nAnswer with `items`, the list \
             of steps.",
            names.join(", "),
            self.criteria
        );
        let steps = questions.shared_items("steps", prompt).await?;
        if steps.is_empty() {
            return Err(questions.not_judged(
                "steps",
                "it derived no steps from the criteria",
                JudgeErrorKind::Retryable,
            ));
        }
        Ok(steps)
    }

    fn material(&self, input: &EvalInput<'_>) -> Result<String, MetricError> {
        let transcript = match (self.subject, input.conversation) {
            (Subject::Answer, _) => None,
            (Subject::Conversation, Some(turns)) if !turns.is_empty() => Some(Transcript::new(turns)),
            (Subject::Conversation, _) => {
                return Err(MetricError::NoConversation {
                    metric: self.name.clone(),
                });
            }
        };
        let mut material = Material::default();
        if let Some(transcript) = &transcript {
            material = transcript.add_to(material);
        }
        for param in &self.params {
            material = match param {
                // The conversation has them.
                EvalParam::Input | EvalParam::ActualOutput if transcript.is_some() => material,
                EvalParam::Input => material.with("question", input.input),
                EvalParam::ActualOutput => material.with("answer", input.response),
                EvalParam::ExpectedOutput => {
                    let expected = input.ground_truth.ok_or_else(|| MetricError::MissingReference {
                        metric: self.name.clone(),
                    })?;
                    material.with("expected", expected)
                }
                EvalParam::Context => {
                    let own = EvalInput {
                        retrieval_context: input.context,
                        ..*input
                    };
                    material.with_all("context", passages(&own, &self.name)?)
                }
                EvalParam::RetrievalContext => {
                    let seen = EvalInput {
                        retrieval_context: input.retrieved.or(input.retrieval_context),
                        ..*input
                    };
                    material.with_all("passage", passages(&seen, &self.name)?)
                }
            };
        }
        Ok(material.render())
    }

    fn build_prompt(&self, input: &EvalInput<'_>, steps: &[String]) -> Result<String, MetricError> {
        if let Some(custom) = &self.custom_prompt {
            let prompt = template::render(custom, input, &self.criteria);
            let prompt = prompt.map_err(|problem| MetricError::Prompt {
                metric: self.name.clone(),
                problem,
            })?;
            return Ok(format!("{prompt}\n\n{}", self.scale_text()));
        }
        let steps: Vec<String> = steps
            .iter()
            .enumerate()
            .map(|(place, step)| format!("{}. {step}", place + 1))
            .collect();
        Ok(format!(
            "Evaluate the {}.\n\nCriteria: {}\n\nSteps:\n{}\n\n{}\n\n{}",
            match self.subject {
                Subject::Answer => "texts below".to_owned(),
                Subject::Conversation => {
                    format!(
                        "conversation below, between a user and an AI assistant, the agent. {EXPLANATION}"
                    )
                }
            },
            self.criteria,
            steps.join("\n"),
            self.scale_text(),
            self.material(input)?
        ))
    }

    /// A text of the material; `None` for a part of the conversation.
    fn describe(&self, param: EvalParam) -> Option<&'static str> {
        match param {
            EvalParam::Input | EvalParam::ActualOutput if self.subject == Subject::Conversation => None,
            EvalParam::Input => Some("the question"),
            EvalParam::ActualOutput => Some("the answer"),
            EvalParam::ExpectedOutput => Some("the expected answer"),
            EvalParam::Context => Some("the given context"),
            EvalParam::RetrievalContext => Some("the retrieved passages"),
        }
    }

    fn scale_text(&self) -> String {
        let reason = reason_text(self.include_reason);
        if self.strict {
            return format!("Answer with {reason}`score`: 1 if the criteria are met entirely, otherwise 0.");
        }
        let (min, max) = self.range();
        let mut text = format!(
            "Answer with {reason}`score`, a whole number from {min} (the criteria are not met at all) to \
             {max} (they are met entirely)."
        );
        for level in self.rubric.iter().flatten() {
            let [low, high] = level.score_range;
            let range = if low == high {
                format!("{low}")
            } else {
                format!("{low} to {high}")
            };
            // Writing to a string cannot fail.
            let _ = write!(text, "\nScore {range}: {}", level.expected_outcome);
        }
        text
    }

    /// The lowest and the highest score. A rubric sets both.
    fn range(&self) -> (u32, u32) {
        let ranges = || self.rubric.iter().flatten().map(|level| level.score_range);
        if self.strict {
            return (0, 1);
        }
        let low = ranges().map(|[low, _]| low).min();
        let high = ranges().map(|[_, high]| high).max();
        (low.unwrap_or(0), high.unwrap_or(TOP))
    }

    /// The mean of scores as a share of the range.
    fn share_of_range(&self, scores: &[f64]) -> Option<f64> {
        let (min, max) = self.range();
        let mean = Decimal::from_f64(Decimal::mean(scores)?)?;
        let above = mean.minus(&Decimal::from_f64(f64::from(min))?);
        Some(above.divided_by(max.checked_sub(min)?)?.to_f64())
    }

    /// Asks for one score; with log-probabilities it is the mean over the scores the judge considered.
    async fn sample(
        &self,
        prompt: &str,
        sample: u32,
        questions: &Questions<'_>,
    ) -> Result<Sample, MetricError> {
        let step = match sample {
            1 => "score".to_owned(),
            _ => format!("score{}", Opinion::Sample.mark(sample)),
        };
        let (min, max) = self.range();
        let format = VerdictFormat::Score { min, max }.with_reason(self.include_reason);
        let question = Question {
            step: &step,
            prompt: prompt.to_owned(),
            format,
            shared: false,
            odds: !self.strict,
        };
        let scored = questions.score(question, |answer: ScoreAnswer| check_score(answer, min, max));
        let (answer, probabilities) = scored.await?;
        let weighted = if self.strict {
            None
        } else {
            weighted_score(&probabilities, (min, max), answer.score)
        };
        Ok(Sample {
            score: weighted.unwrap_or(answer.score),
            raw: answer.score,
            weighted: weighted.is_some(),
            reason: answer.reason,
        })
    }
}

struct Sample {
    score: f64,
    raw: f64,
    weighted: bool,
    reason: String,
}

/// Asks the judge of a metric to derive its steps from its criteria.
pub async fn derive_steps(
    metric: &GevalMetric,
    conversation: bool,
    judge: &dyn Judge,
) -> Result<Vec<String>, MetricError> {
    let (subject, label) = if conversation {
        (Subject::Conversation, format!("conversation · {}", metric.name))
    } else {
        (Subject::Answer, metric.name.clone())
    };
    let own = metric.judges.as_ref().and_then(|judges| judges.first());
    let questions = Questions {
        judge,
        metric: &metric.name,
        label: &label,
        model: own.or(metric.model.as_ref()),
        timeout: metric.timeout_ms.map(Duration::from_millis),
        round: "",
    };
    let geval = Geval::new(metric, subject)
        .map_err(|problem| questions.not_judged("steps", &problem.text, JudgeErrorKind::Final))?;
    geval.steps(&questions).await
}

#[async_trait]
impl JudgedMetric for Geval {
    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText> {
        if let Some(custom) = &self.custom_prompt {
            return template::reads(custom, input);
        }
        let is_conversation = self.subject == Subject::Conversation;
        let transcript = InputText::TRANSCRIPT.into_iter().filter(|_| is_conversation);
        let params = self.params.iter().map(|param| match param {
            EvalParam::Input => InputText::Question,
            EvalParam::ActualOutput => InputText::Answer,
            EvalParam::ExpectedOutput => InputText::GroundTruth,
            EvalParam::Context => InputText::Context,
            EvalParam::RetrievalContext if input.retrieved.is_some() => InputText::Retrieved,
            EvalParam::RetrievalContext => input.kind_of_passages(),
        });
        transcript.chain(params).collect()
    }

    async fn judge(&self, input: &EvalInput<'_>, questions: &Questions<'_>) -> Result<Score, MetricError> {
        // Checked before anything is asked.
        self.build_prompt(input, &[])?;
        let steps = match &self.custom_prompt {
            Some(_) => Vec::new(),
            None => self.steps(questions).await?,
        };
        let prompt = self.build_prompt(input, &steps)?;
        let first = self.sample(&prompt, 1, questions).await;
        let first = first.map_err(|error| error.of_part("sample", 1, self.samples))?;
        let mut scores = vec![first.score];
        if !first.weighted {
            for sample in 2..=self.samples {
                let sampled = self.sample(&prompt, sample, questions).await;
                let sampled = sampled.map_err(|error| error.of_part("sample", sample, self.samples));
                scores.push(sampled?.score);
            }
        }
        let mut evidence = json!({"raw": first.raw});
        if let Some(evidence) = evidence.as_object_mut() {
            if self.steps.is_none() && !steps.is_empty() {
                evidence.insert("steps".to_owned(), json!(steps));
            }
            if first.weighted {
                evidence.insert("weighted".to_owned(), json!(first.score));
            }
            if scores.len() > 1 {
                evidence.insert("samples".to_owned(), json!(scores));
            }
        }
        // In strict mode several samples must agree: a mean would be neither met nor missed.
        let value = if self.strict {
            f64::from(u8::from(scores.iter().all(|score| *score >= 1.0)))
        } else {
            self.share_of_range(&scores).unwrap_or(f64::NAN)
        };
        Ok(Score {
            reason: self.include_reason.then_some(first.reason),
            evidence: Some(evidence),
            ..Score::graded(value)
        })
    }
}

fn check_rubric(rubric: &[RubricLevel]) -> Result<(), String> {
    let mut covered = [false; TOP as usize + 1];
    for level in rubric {
        let [low, high] = level.score_range;
        if low > high || high > TOP {
            return Err(format!(
                "`score_range` [{low}, {high}] of the rubric is not a range from 0 to {TOP}"
            ));
        }
        for score in covered.iter_mut().take(high as usize + 1).skip(low as usize) {
            if std::mem::replace(score, true) {
                return Err(format!(
                    "`score_range` [{low}, {high}] of the rubric overlaps another range"
                ));
            }
        }
    }
    let scores = covered.iter().filter(|covered| **covered).count();
    if scores < 2 {
        return Err("the `score_range`s of the rubric cover only one score".to_owned());
    }
    Ok(())
}

/// The mean of the possible scores, weighted by their probabilities, of those more probable than 1 %. `None` if there
/// are none, or if it is not clear what the probabilities are of.
fn weighted_score(scores: &[(f64, f64)], (min, max): (u32, u32), answered: f64) -> Option<f64> {
    let in_range = |score: f64| score.fract() == 0.0 && (f64::from(min)..=f64::from(max)).contains(&score);
    let usable = || {
        let usable = scores.iter().copied();
        usable.filter(|(score, probability)| in_range(*score) && (0.01..=1.0).contains(probability))
    };
    // The probability of `1` includes that of `10` if the model writes digit by digit. It does not if the model could
    // have written `10` at once.
    let is_known = |score: f64| scores.iter().any(|(known, _)| known.to_bits() == score.to_bits());
    let longer = |score: f64| {
        (min..=max)
            .map(f64::from)
            .filter(move |other| begins_with(*other, score))
    };
    let is_unclear = |score: f64| longer(score).any(|longer| !is_known(longer));
    if usable()
        .chain([(answered, 1.0)])
        .any(|(score, _)| is_unclear(score))
    {
        return None;
    }
    let (mut sum, mut weight) = (0.0, 0.0);
    for (score, probability) in usable() {
        sum += score * probability;
        weight += probability;
    }
    (weight > 0.0).then(|| sum / weight)
}

/// Whether the digits of a score begin with all of another's, and continue.
fn begins_with(score: f64, other: f64) -> bool {
    let (score, other) = (score.to_string(), other.to_string());
    score.len() > other.len() && score.starts_with(&other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_weighted_by_their_probabilities() {
        let weigh = |scores: &[(f64, f64)]| weighted_score(scores, (0, 10), 8.0);
        assert_eq!(weigh(&[(8.0, 0.75), (6.0, 0.25)]), Some(7.5));
        assert_eq!(weigh(&[(8.0, 0.3), (6.0, 0.1)]), Some(7.5));
        assert_eq!(weigh(&[(8.0, 0.5), (6.0, 0.009)]), Some(8.0));
        assert_eq!(weigh(&[(8.0, 0.5), (80.0, 0.4), (7.5, 0.1)]), Some(8.0));
        assert_eq!(weigh(&[(80.0, 0.5), (6.0, f64::NAN)]), None);
        assert_eq!(weigh(&[]), None);
    }

    #[test]
    fn a_digit_that_may_begin_a_longer_score_is_not_weighted() {
        let weigh = |scores: &[(f64, f64)], max, answer| weighted_score(scores, (0, max), answer);
        // `1` may be the first digit of 10.
        assert_eq!(weigh(&[(8.0, 0.5), (1.0, 0.5)], 10, 8.0), None);
        assert_eq!(weigh(&[(1.0, 0.5), (2.0, 0.5)], 10, 1.0), None);
        assert_eq!(weigh(&[(1.0, 0.5), (2.0, 0.5)], 9, 1.0), Some(1.5));
        // The model writes 10 at once.
        let odds = [(1.0, 0.75), (2.0, 0.25), (10.0, 1e-6)];
        assert_eq!(weigh(&odds, 10, 1.0), Some(1.25));
        // Below 1 % it does not matter.
        assert_eq!(weigh(&[(8.0, 0.5), (1.0, 0.009)], 10, 8.0), Some(8.0));
    }

    #[test]
    fn ranges_of_a_rubric_are_in_order_and_do_not_overlap() {
        let rubric = |ranges: &[[u32; 2]]| {
            let levels = ranges.iter().map(|&score_range| RubricLevel {
                score_range,
                expected_outcome: "x".to_owned(),
            });
            check_rubric(&levels.collect::<Vec<_>>())
        };
        assert_eq!(rubric(&[[0, 4], [5, 10]]), Ok(()));
        assert!(rubric(&[[0, 5], [5, 10]]).unwrap_err().contains("overlaps"));
        assert!(rubric(&[[4, 1]]).is_err());
        assert!(rubric(&[[4, 11]]).is_err());
    }
}
