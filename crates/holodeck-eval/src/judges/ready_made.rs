//! The ready-made judges: groundedness, relevance, coherence, fluency.

use async_trait::async_trait;
use holodeck_model::{StandardMetric, StandardMetricName};
use serde::Deserialize;

use super::{
    JudgedMetric, Subject,
    material::Material,
    questions::{Question, Questions, reason_text},
    template,
};
use crate::{EvalInput, InputText, MetricError, Score, VerdictFormat, config_problem::ConfigProblem};

/// The highest score without `scale`.
const DEFAULT_SCALE: u32 = 5;

/// A judge whose criteria are built in.
pub(super) struct ReadyMade {
    metric: StandardMetricName,
    scale: u32,
    custom_prompt: Option<String>,
    include_reason: bool,
}

impl ReadyMade {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, ConfigProblem> {
        let scale = config.scale.unwrap_or(DEFAULT_SCALE);
        if scale < 2 {
            return Err(ConfigProblem::of(
                "scale",
                "`scale` must be at least 2: with one possible score every answer passes",
            ));
        }
        if let Some(prompt) = &config.custom_prompt {
            template::check_custom_prompt(prompt, Subject::Answer)
                .map_err(|text| ConfigProblem::of("custom_prompt", text))?;
        }
        Ok(Self {
            metric: config.metric,
            scale,
            custom_prompt: config.custom_prompt.clone(),
            include_reason: config.include_reason.unwrap_or(true),
        })
    }

    fn criteria(&self) -> &'static str {
        match self.metric {
            StandardMetricName::Groundedness => {
                "Groundedness: every statement of the answer follows from the passages. The lowest score is for an \
                 answer that the passages contradict or do not support at all, the highest for one whose every \
                 statement they support."
            }
            StandardMetricName::Relevance => {
                "Relevance: the answer addresses what the question asks. The lowest score is for an answer that has \
                 nothing to do with the question, the highest for one that addresses all of it and nothing else."
            }
            StandardMetricName::Coherence => {
                "Coherence: the sentences of the answer belong together and follow from each other. The lowest score is \
                 for an answer whose parts contradict each other or have no order, the highest for one that is easy to \
                 follow from beginning to end."
            }
            _ => {
                "Fluency: the language of the answer. The lowest score is for an answer full of mistakes that is hard to \
                 understand, the highest for one that is correct, clear and natural. The content does not matter."
            }
        }
    }

    fn build_prompt(&self, input: &EvalInput<'_>) -> Result<String, MetricError> {
        if let Some(custom) = &self.custom_prompt {
            let prompt = template::render(custom, input, self.criteria());
            let prompt = prompt.map_err(|problem| MetricError::Prompt {
                metric: self.metric.as_str().to_owned(),
                problem,
            })?;
            return Ok(format!("{prompt}\n\n{}", self.scale_text()));
        }
        let material = match self.metric {
            StandardMetricName::Groundedness => {
                let passages = passages(input, self.metric.as_str())?;
                Material::default().with_all("passage", passages)
            }
            StandardMetricName::Relevance | StandardMetricName::Coherence => {
                Material::default().with("question", input.input)
            }
            _ => Material::default(),
        };
        let material = material.with("answer", input.response).render();
        Ok(format!(
            "Judge the answer below by one criterion.\n\n{}\n\n{}\n\n{material}",
            self.criteria(),
            self.scale_text()
        ))
    }

    fn scale_text(&self) -> String {
        format!(
            "Answer with {}`score`, a whole number from 1 (worst) to {} (best).",
            reason_text(self.include_reason),
            self.scale
        )
    }
}

#[derive(Deserialize)]
pub(super) struct ScoreAnswer {
    /// Absent if none was asked for.
    #[serde(default)]
    pub(super) reason: String,
    pub(super) score: f64,
}

#[async_trait]
impl JudgedMetric for ReadyMade {
    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText> {
        if let Some(custom) = &self.custom_prompt {
            return template::reads(custom, input);
        }
        let mut reads = vec![InputText::Answer];
        match self.metric {
            StandardMetricName::Groundedness => reads.push(input.kind_of_passages()),
            StandardMetricName::Relevance | StandardMetricName::Coherence => reads.push(InputText::Question),
            _ => {}
        }
        reads
    }

    async fn judge(&self, input: &EvalInput<'_>, questions: &Questions<'_>) -> Result<Score, MetricError> {
        let question = Question {
            step: "score",
            prompt: self.build_prompt(input)?,
            format: VerdictFormat::Score {
                min: 1,
                max: self.scale,
            }
            .with_reason(self.include_reason),
            shared: false,
            odds: false,
        };
        let answer = questions
            .ask_for(question, |answer: ScoreAnswer| check_score(answer, 1, self.scale))
            .await?;
        Ok(Score {
            reason: self.include_reason.then_some(answer.reason),
            ..Score::graded(answer.score / f64::from(self.scale))
        })
    }
}

/// Whether a score is whole and in its range, for judges whose endpoint does not enforce the format.
pub(super) fn check_score(answer: ScoreAnswer, min: u32, max: u32) -> Result<ScoreAnswer, String> {
    let is_whole = answer.score.fract() == 0.0;
    if is_whole && (f64::from(min)..=f64::from(max)).contains(&answer.score) {
        return Ok(answer);
    }
    Err(format!(
        "the score {} is not a whole number from {min} to {max}",
        answer.score
    ))
}

/// The passages of the case or of the turn; without them the metric has no meaning.
pub(super) fn passages<'a>(
    input: &EvalInput<'a>,
    metric: &str,
) -> Result<impl Iterator<Item = &'a str> + use<'a>, MetricError> {
    match input.retrieval_context {
        Some(passages) if passages.iter().any(|passage| !passage.trim().is_empty()) => {
            Ok(passages.iter().map(String::as_str))
        }
        _ => Err(MetricError::MissingContext {
            metric: metric.to_owned(),
        }),
    }
}
