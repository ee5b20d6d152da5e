//! The retrieval metrics, by the definitions of Ragas and DeepEval.

use std::fmt::Write as _;

use async_trait::async_trait;
use holodeck_model::{RagMetric, RagMetricType};
use serde_json::{Value, json};

use super::{
    JudgedMetric,
    material::Material,
    questions::{NumberedVerdict, Question, Questions, VerdictWord},
    ready_made::passages,
};
use crate::{EvalInput, InputText, JudgeErrorKind, MetricError, Score, VerdictFormat};

/// How many verdicts a reason quotes.
const QUOTED: usize = 3;

/// A judge of retrieval and grounding.
pub(super) struct Rag {
    kind: RagMetricType,
    include_reason: bool,
    strict: bool,
}

/// An item and the verdict on it.
struct Judged {
    item: String,
    verdict: VerdictWord,
    reason: String,
}

impl Rag {
    pub(super) fn new(config: &RagMetric) -> Self {
        Self {
            kind: config.metric_type,
            include_reason: config.include_reason.unwrap_or(true),
            strict: config.strict_mode,
        }
    }

    fn name(&self) -> &'static str {
        self.kind.as_str()
    }

    fn expected<'a>(&self, input: &EvalInput<'a>) -> Result<&'a str, MetricError> {
        input.ground_truth.ok_or_else(|| MetricError::MissingReference {
            metric: self.name().to_owned(),
        })
    }

    /// Share of the answer's claims that the passages do not contradict.
    async fn faithfulness(
        &self,
        input: &EvalInput<'_>,
        questions: &Questions<'_>,
    ) -> Result<Score, MetricError> {
        let passages: Vec<&str> = passages(input, self.name())?.collect();
        let answer = Material::default().with("answer", input.response).render();
        let prompt = format!(
            "List the claims that the answer below makes: every statement of fact, each as one short sentence that can be \
             understood by itself. Leave out questions, greetings, opinions and advice. Answer with `items`, the list of \
             claims; it is empty if there are none.\n\n{answer}"
        );
        let claims = questions.items("claims", prompt).await?;
        if claims.is_empty() {
            return Err(nothing(questions, "claims in the answer"));
        }
        let material = Material::default()
            .with_all("passage", passages)
            .with_all("claim", claims.iter().map(String::as_str));
        let prompt = format!(
            "For each claim below say whether the passages support it: `yes` if they do, `no` if they contradict it, `idk` \
             if they say nothing about it. Use the passages only, not what you know. {} The claims are numbered from 1 to \
             {}.\n\n{}",
            self.verdict_text(),
            claims.len(),
            material.render()
        );
        let allowed = [VerdictWord::Yes, VerdictWord::No, VerdictWord::Idk];
        let verdicts = questions
            .verdicts(self.verdict_format(), prompt, claims.len(), &allowed)
            .await?;
        let judged = join(claims, verdicts);
        let good = judged
            .iter()
            .filter(|claim| claim.verdict != VerdictWord::No)
            .count();
        let score = good as f64 / judged.len() as f64;
        Ok(self.conclude(score, &judged, VerdictWord::No, "claims contradict the passages"))
    }

    /// Share of the answer's statements that concern the question.
    async fn answer_relevancy(
        &self,
        input: &EvalInput<'_>,
        questions: &Questions<'_>,
    ) -> Result<Score, MetricError> {
        let answer = Material::default().with("answer", input.response).render();
        let prompt = format!(
            "Split the answer below into its statements: each as one short sentence that can be understood by itself, in \
             their order, none left out. Answer with `items`, the list of statements.\n\n{answer}"
        );
        let statements = questions.items("statements", prompt).await?;
        if statements.is_empty() {
            return Err(nothing(questions, "statements in the answer"));
        }
        let material = Material::default()
            .with("question", input.input)
            .with_all("statement", statements.iter().map(String::as_str));
        let prompt = format!(
            "For each statement below say whether it helps to answer the question: `yes` if it does, `no` if it has \
             nothing to do with the question, `idk` if it is not part of the answer but could support it. {} The \
             statements are numbered from 1 to {}.\n\n{}",
            self.verdict_text(),
            statements.len(),
            material.render()
        );
        let allowed = [VerdictWord::Yes, VerdictWord::No, VerdictWord::Idk];
        let verdicts = questions
            .verdicts(self.verdict_format(), prompt, statements.len(), &allowed)
            .await?;
        let judged = join(statements, verdicts);
        let good = judged
            .iter()
            .filter(|statement| statement.verdict != VerdictWord::No)
            .count();
        let score = good as f64 / judged.len() as f64;
        Ok(self.conclude(
            score,
            &judged,
            VerdictWord::No,
            "statements do not concern the question",
        ))
    }

    /// Mean precision at the rank of each useful passage.
    async fn contextual_precision(
        &self,
        input: &EvalInput<'_>,
        questions: &Questions<'_>,
    ) -> Result<Score, MetricError> {
        let expected = self.expected(input)?;
        let passages: Vec<&str> = passages(input, self.name())?.collect();
        let material = Material::default()
            .with("question", input.input)
            .with("expected", expected)
            .with_all("passage", passages.iter().copied());
        let prompt = format!(
            "For each passage below say whether it is useful for arriving at the expected answer to the question: `yes` or \
             `no`. {} The passages are numbered from 1 to {}.\n\n{}",
            self.verdict_text(),
            passages.len(),
            material.render()
        );
        let allowed = [VerdictWord::Yes, VerdictWord::No];
        let verdicts = questions
            .verdicts(self.verdict_format(), prompt, passages.len(), &allowed)
            .await?;
        let judged = join(passages.into_iter().map(str::to_owned).collect(), verdicts);
        let useful: Vec<bool> = judged
            .iter()
            .map(|passage| passage.verdict == VerdictWord::Yes)
            .collect();
        let score = mean_precision(&useful);
        Ok(self.conclude(score, &judged, VerdictWord::No, "passages are not useful"))
    }

    /// Share of the expected answer's statements that a passage supports.
    async fn contextual_recall(
        &self,
        input: &EvalInput<'_>,
        questions: &Questions<'_>,
    ) -> Result<Score, MetricError> {
        let expected = self.expected(input)?;
        let passages = passages(input, self.name())?;
        let material = Material::default()
            .with("expected", expected)
            .with_all("passage", passages);
        let prompt = format!(
            "Split the expected answer below into its statements, none left out, and say for each whether a passage \
             supports it: `yes` or `no`. Use the passages only, not what you know. {}\n\n{}",
            self.statement_text(),
            material.render()
        );
        let judged = self.statements("statements", prompt, questions).await?;
        if judged.is_empty() {
            return Err(nothing(questions, "statements in the expected answer"));
        }
        let score = share_of_yes(&judged);
        Ok(self.conclude(
            score,
            &judged,
            VerdictWord::No,
            "statements of the expected answer are in no passage",
        ))
    }

    /// Share of the passages' statements that concern the question.
    async fn contextual_relevancy(
        &self,
        input: &EvalInput<'_>,
        questions: &Questions<'_>,
    ) -> Result<Score, MetricError> {
        let mut judged = Vec::new();
        for (place, passage) in passages(input, self.name())?.enumerate() {
            let material = Material::default()
                .with("question", input.input)
                .with("passage", passage);
            let prompt = format!(
                "Split the passage below into its statements, none left out, and say for each whether it concerns the \
                 question: `yes` or `no`. {}\n\n{}",
                self.statement_text(),
                material.render()
            );
            let step = format!("passage {}", place + 1);
            judged.extend(self.statements(&step, prompt, questions).await?);
        }
        if judged.is_empty() {
            return Err(nothing(questions, "statements in the passages"));
        }
        let score = share_of_yes(&judged);
        Ok(self.conclude(
            score,
            &judged,
            VerdictWord::No,
            "statements of the passages do not concern the question",
        ))
    }

    async fn statements(
        &self,
        step: &str,
        prompt: String,
        questions: &Questions<'_>,
    ) -> Result<Vec<Judged>, MetricError> {
        #[derive(serde::Deserialize)]
        struct Statement {
            #[serde(rename = "statement")]
            text: String,
            verdict: VerdictWord,
            #[serde(default)]
            reason: String,
        }
        #[derive(serde::Deserialize)]
        struct Statements {
            statements: Vec<Statement>,
        }
        let question = Question {
            step,
            prompt,
            format: VerdictFormat::Statements.with_reason(self.include_reason),
            shared: false,
            odds: false,
        };
        questions
            .ask_for(question, |answer: Statements| {
                let judged = answer
                    .statements
                    .into_iter()
                    .map(|statement| match statement.verdict {
                        VerdictWord::Idk => Err("`idk` is not a verdict here".to_owned()),
                        _ if statement.text.trim().is_empty() => Err("a statement is empty".to_owned()),
                        verdict => Ok(Judged {
                            item: statement.text,
                            verdict,
                            reason: statement.reason,
                        }),
                    });
                judged.collect()
            })
            .await
    }

    fn verdict_format(&self) -> VerdictFormat {
        VerdictFormat::Verdicts.with_reason(self.include_reason)
    }

    fn verdict_text(&self) -> String {
        format!(
            "Answer with `verdicts`: for each its `number`{} and the `verdict`.",
            self.reason_text()
        )
    }

    fn statement_text(&self) -> String {
        format!(
            "Answer with `statements`: for each the `statement`{} and the `verdict`.",
            self.reason_text()
        )
    }

    fn reason_text(&self) -> &'static str {
        if self.include_reason {
            ", the `reason` in one short sentence,"
        } else {
            ""
        }
    }

    /// The score with its reason, which quotes the items that lowered it, and the verdicts as evidence.
    fn conclude(&self, score: f64, judged: &[Judged], bad: VerdictWord, problem: &str) -> Score {
        let value = if self.strict && score < 1.0 { 0.0 } else { score };
        let reason = self.include_reason.then(|| {
            let lowering: Vec<&Judged> = judged.iter().filter(|item| item.verdict == bad).collect();
            let mut reason = format!("{} of {} {problem}", lowering.len(), judged.len());
            for item in lowering.iter().take(QUOTED) {
                // Writing to a string cannot fail.
                let _ = write!(reason, "; {}", quote(item));
            }
            reason
        });
        let evidence: Vec<Value> = judged
            .iter()
            .map(|item| json!({"item": item.item, "verdict": item.verdict.as_str(), "reason": item.reason}))
            .collect();
        Score {
            reason,
            evidence: Some(Value::Array(evidence)),
            ..Score::graded(value)
        }
    }
}

/// Without anything to judge there is no share; 1 would pass an answer that says nothing.
fn nothing(questions: &Questions<'_>, what: &str) -> MetricError {
    questions.not_judged(what, &format!("it found no {what}"), JudgeErrorKind::Retryable)
}

fn join(items: Vec<String>, verdicts: Vec<NumberedVerdict>) -> Vec<Judged> {
    let joined = items.into_iter().zip(verdicts).map(|(item, verdict)| Judged {
        item,
        verdict: verdict.verdict,
        reason: verdict.reason,
    });
    joined.collect()
}

fn share_of_yes(judged: &[Judged]) -> f64 {
    let yes = judged
        .iter()
        .filter(|item| item.verdict == VerdictWord::Yes)
        .count();
    yes as f64 / judged.len() as f64
}

/// Mean over the useful passages of the precision at their rank; 0 if none is useful.
fn mean_precision(useful: &[bool]) -> f64 {
    let (mut found, mut sum) = (0.0, 0.0);
    for (place, _) in useful.iter().enumerate().filter(|(_, useful)| **useful) {
        found += 1.0;
        sum += found / (place as f64 + 1.0);
    }
    if found > 0.0 { sum / found } else { 0.0 }
}

fn quote(item: &Judged) -> String {
    let text: String = item.item.chars().take(120).collect();
    let cut = if text.len() < item.item.len() { "…" } else { "" };
    if item.reason.is_empty() {
        format!("“{text}{cut}”")
    } else {
        format!("“{text}{cut}”: {}", item.reason)
    }
}

#[async_trait]
impl JudgedMetric for Rag {
    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText> {
        let passages = input.kind_of_passages();
        match self.kind {
            RagMetricType::Faithfulness => vec![InputText::Answer, passages],
            RagMetricType::AnswerRelevancy => vec![InputText::Answer, InputText::Question],
            RagMetricType::ContextualPrecision => {
                vec![InputText::Question, InputText::GroundTruth, passages]
            }
            RagMetricType::ContextualRecall => vec![InputText::GroundTruth, passages],
            RagMetricType::ContextualRelevancy => vec![InputText::Question, passages],
        }
    }

    async fn judge(&self, input: &EvalInput<'_>, questions: &Questions<'_>) -> Result<Score, MetricError> {
        match self.kind {
            RagMetricType::Faithfulness => self.faithfulness(input, questions).await,
            RagMetricType::AnswerRelevancy => self.answer_relevancy(input, questions).await,
            RagMetricType::ContextualPrecision => self.contextual_precision(input, questions).await,
            RagMetricType::ContextualRecall => self.contextual_recall(input, questions).await,
            RagMetricType::ContextualRelevancy => self.contextual_relevancy(input, questions).await,
        }
    }
}
