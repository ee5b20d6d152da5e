//! The metric that compares what the answer and the expected text mean, by their embeddings.

use async_trait::async_trait;
use holodeck_model::{OneOrMany, StandardMetric};
use serde_json::json;

use crate::{Asked, AskingMetric, Comparison, EvalInput, InputText, JudgeErrorKind, MetricError, Score};

/// One in the unit of similarities.
const ONE: i64 = 1_000_000;

/// Scores the highest cosine of the embeddings of the answer and of an expected text; below zero it is zero.
pub(crate) struct Similar {
    config: StandardMetric,
}

impl Similar {
    pub(crate) fn new(config: &StandardMetric) -> Result<Self, String> {
        if matches!(&config.value, Some(OneOrMany::Many(texts)) if texts.is_empty()) {
            return Err("`value` is an empty list, so that there is nothing to compare with".to_owned());
        }
        Ok(Self {
            config: config.clone(),
        })
    }

    /// The texts to compare with.
    fn expected(&self, input: &EvalInput<'_>) -> Result<Vec<String>, MetricError> {
        let texts = match &self.config.value {
            Some(OneOrMany::One(text)) => vec![text.clone()],
            Some(OneOrMany::Many(texts)) => texts.clone(),
            None => vec![
                input
                    .ground_truth
                    .ok_or_else(|| MetricError::MissingReference {
                        metric: self.name().to_owned(),
                    })?
                    .to_owned(),
            ],
        };
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err(MetricError::UnusableReference {
                metric: self.name().to_owned(),
                problem: "an empty text has no embedding".to_owned(),
            });
        }
        Ok(texts)
    }

    fn not_a_score(&self, problem: impl Into<String>) -> MetricError {
        MetricError::NotAScore {
            metric: self.name().to_owned(),
            problem: problem.into(),
        }
    }

    /// The highest similarity, with the place of its text.
    fn best(&self, cosines: &[i64], texts: usize) -> Result<(usize, i64), MetricError> {
        if cosines.len() != texts {
            let problem = format!("{} similarities for {texts} texts", cosines.len());
            return Err(self.not_a_score(problem));
        }
        if let Some(wrong) = cosines.iter().find(|cosine| !(-ONE..=ONE).contains(*cosine)) {
            return Err(self.not_a_score(format!("a similarity of {} is not from -1 to 1", share(*wrong))));
        }
        let ranked = cosines.iter().copied().enumerate();
        ranked
            .max_by_key(|(place, cosine)| (*cosine, std::cmp::Reverse(*place)))
            .ok_or_else(|| self.not_a_score("there is no text to compare with"))
    }
}

#[async_trait]
impl AskingMetric for Similar {
    fn name(&self) -> &str {
        self.config.metric.as_str()
    }

    fn reads(&self, _: &EvalInput<'_>) -> Vec<InputText> {
        let expected = self.config.value.is_none().then_some(InputText::GroundTruth);
        [InputText::Answer].into_iter().chain(expected).collect()
    }

    async fn score(&self, input: &EvalInput<'_>, asked: &Asked<'_>) -> Result<Score, MetricError> {
        let texts = self.expected(input)?;
        if input.response.trim().is_empty() {
            return Err(self.not_a_score("the answer is empty, and an empty text has no embedding"));
        }
        let mut retries = 0;
        let cosines = loop {
            let comparison = Comparison {
                embedder: self.config.embedder.as_deref(),
                texts: texts.clone(),
                query: input.response.to_owned(),
                timeout: self.config.timeout_ms.map(std::time::Duration::from_millis),
            };
            match asked.judge.compare(comparison).await {
                Ok(cosines) => break cosines,
                Err(error)
                    if error.kind == JudgeErrorKind::Retryable
                        && retries < self.config.retry_on_failure.unwrap_or(0) =>
                {
                    retries += 1;
                }
                Err(error) => {
                    return Err(MetricError::NotJudged {
                        name: self.name().to_owned(),
                        asked: None,
                        reason: error.reason,
                        kind: error.kind,
                        missing_votes: Vec::new(),
                    });
                }
            }
        };
        let (place, cosine) = self.best(&cosines, texts.len())?;
        let of = if texts.len() > 1 {
            format!(" (text {} of {})", place + 1, texts.len())
        } else {
            String::new()
        };
        let similarities: Vec<f64> = cosines.iter().map(|cosine| share(*cosine)).collect();
        Ok(Score {
            reason: Some(format!("the similarity is {}{of}", share(cosine))),
            evidence: Some(json!({"similarities": similarities})),
            retries,
            ..Score::graded(share(cosine.max(0)))
        })
    }
}

/// Millionths as a number; there are few enough for it to be exact.
#[allow(
    clippy::cast_precision_loss,
    reason = "a cosine in millionths has seven digits"
)]
fn share(millionths: i64) -> f64 {
    millionths as f64 / ONE as f64
}
