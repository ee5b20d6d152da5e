//! How a judged metric asks.

use std::time::Duration;

use holodeck_model::ModelConfig;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{Judge, JudgeAnswer, JudgeErrorKind, JudgeRequest, MetricError, UNFIT_VERDICT, VerdictFormat};

/// The end of the purpose of a question that is asked once more.
const AGAIN: &str = " again";

/// Asks one judge on behalf of one metric.
#[derive(Clone, Copy)]
pub(crate) struct Questions<'a> {
    pub(super) judge: &'a dyn Judge,
    pub(super) metric: &'a str,
    /// The metric in records.
    pub(super) label: &'a str,
    pub(super) model: Option<&'a ModelConfig>,
    pub(super) timeout: Option<Duration>,
    /// Distinguishes equal questions: the judge of a jury, the repetition, the attempt.
    pub(super) round: &'a str,
}

/// A prompt and the form of its answer.
pub(super) struct Question<'a> {
    /// Its purpose.
    pub(super) step: &'a str,
    pub(super) prompt: String,
    pub(super) format: VerdictFormat,
    /// Whether the answer is the same for every case.
    pub(super) shared: bool,
    /// Whether to ask for the probabilities of the possible scores.
    pub(super) odds: bool,
}

/// One verdict on a numbered item.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct NumberedVerdict {
    number: usize,
    pub(super) verdict: VerdictWord,
    #[serde(default)]
    pub(super) reason: String,
}

/// The words of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VerdictWord {
    Yes,
    No,
    /// The judge does not know.
    Idk,
}

impl VerdictWord {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Idk => "idk",
        }
    }
}

impl Questions<'_> {
    /// Asks once.
    pub(super) async fn ask(&self, question: Question<'_>) -> Result<JudgeAnswer, MetricError> {
        let round = if question.shared { "" } else { self.round };
        let request = JudgeRequest {
            model: self.model,
            label: format!("{} · {}{round}", self.label, question.step),
            prompt: question.prompt,
            format: question.format,
            shared: question.shared,
            odds: question.odds,
            timeout: self.timeout,
        };
        let answer = self.judge.ask(request).await;
        answer.map_err(|error| self.not_judged(question.step, &error.reason, error.kind))
    }

    /// Asks, and asks once more if `read` finds that the answer does not fit.
    pub(super) async fn ask_for<T: DeserializeOwned, R>(
        &self,
        question: Question<'_>,
        read: impl Fn(T) -> Result<R, String>,
    ) -> Result<R, MetricError> {
        let read = |answer: JudgeAnswer| {
            let value = serde_json::from_value(answer.value).map_err(|error| error.to_string())?;
            read(value)
        };
        self.ask_and_read(question, read).await
    }

    /// Asks, and asks once more if the answer does not fit. Where the second one has no valid score, the kind of the error
    /// says so.
    async fn ask_and_read<R>(
        &self,
        question: Question<'_>,
        read: impl Fn(JudgeAnswer) -> Result<R, String>,
    ) -> Result<R, MetricError> {
        let Question {
            step,
            prompt,
            format,
            shared,
            odds,
        } = question;
        let mut problem: Option<String> = None;
        loop {
            let (step, prompt) = match &problem {
                None => (step.to_owned(), prompt.clone()),
                Some(problem) => (
                    format!("{step}{AGAIN}"),
                    format!(
                        "{prompt}\n\nAn earlier answer to this task was refused: {problem}. Answer again, correctly."
                    ),
                ),
            };
            let question = Question {
                step: &step,
                prompt,
                format,
                shared,
                odds,
            };
            let answer = self.ask(question).await?;
            let invalid_score = format.invalid_score(&answer.value);
            let (reason, kind) = match (invalid_score, read(answer)) {
                (None, Ok(read)) => return Ok(read),
                (None, Err(reason)) => (reason, JudgeErrorKind::Retryable),
                (Some(reason), _) => (reason, JudgeErrorKind::NotAScore),
            };
            if problem.is_some() {
                return Err(self.not_judged(&step, &format!("{UNFIT_VERDICT}{reason}"), kind));
            }
            problem = Some(reason);
        }
    }

    /// Asks for a score, with the probabilities of the possible ones where the endpoint returns them.
    pub(super) async fn score<T: DeserializeOwned>(
        &self,
        question: Question<'_>,
        read: impl Fn(T) -> Result<T, String>,
    ) -> Result<(T, Vec<(f64, f64)>), MetricError> {
        let read = |answer: JudgeAnswer| {
            let value = serde_json::from_value(answer.value).map_err(|error| error.to_string())?;
            Ok((read(value)?, answer.scores))
        };
        self.ask_and_read(question, read).await
    }

    /// Asks for a list of texts.
    pub(super) async fn items(&self, step: &str, prompt: String) -> Result<Vec<String>, MetricError> {
        self.list(step, prompt, false).await
    }

    /// Asks for a list of texts that is the same for every case.
    pub(super) async fn shared_items(&self, step: &str, prompt: String) -> Result<Vec<String>, MetricError> {
        self.list(step, prompt, true).await
    }

    async fn list(&self, step: &str, prompt: String, shared: bool) -> Result<Vec<String>, MetricError> {
        #[derive(Deserialize)]
        struct Items {
            items: Vec<String>,
        }
        let question = Question {
            step,
            prompt,
            format: VerdictFormat::Items,
            shared,
            odds: false,
        };
        self.ask_for(question, |answer: Items| {
            if answer.items.iter().any(|item| item.trim().is_empty()) {
                return Err("an item is empty".to_owned());
            }
            Ok(answer.items)
        })
        .await
    }

    /// Asks for a verdict on each of `count` numbered items: exactly one each, because a verdict that is left out would
    /// change the score unseen.
    pub(super) async fn verdicts(
        &self,
        format: VerdictFormat,
        prompt: String,
        count: usize,
        allowed: &[VerdictWord],
    ) -> Result<Vec<NumberedVerdict>, MetricError> {
        #[derive(Deserialize)]
        struct Verdicts {
            verdicts: Vec<NumberedVerdict>,
        }
        let question = Question {
            step: "verdicts",
            prompt,
            format,
            shared: false,
            odds: false,
        };
        self.ask_for(question, |answer: Verdicts| {
            let mut verdicts = answer.verdicts;
            verdicts.sort_by_key(|verdict| verdict.number);
            let numbers = verdicts.iter().map(|verdict| verdict.number);
            if !numbers.eq(1..=count) {
                return Err(format!(
                    "one verdict for each of the numbers 1 to {count} is needed, and there are {}",
                    verdicts.len()
                ));
            }
            match verdicts
                .iter()
                .find(|verdict| !allowed.contains(&verdict.verdict))
            {
                Some(verdict) => Err(format!("`{}` is not a verdict here", verdict.verdict.as_str())),
                None => Ok(verdicts),
            }
        })
        .await
    }

    /// No verdict: which judge was asked for what, and why its answer counts for nothing.
    pub(super) fn not_judged(&self, step: &str, reason: &str, kind: JudgeErrorKind) -> MetricError {
        let judge = self.judge.name(self.model);
        let judge = judge.map_or_else(String::new, |name| format!(" `{name}`"));
        let step = step.strip_suffix(AGAIN).unwrap_or(step);
        MetricError::NotJudged {
            name: self.metric.to_owned(),
            asked: Some(format!("the judge{judge} ({step})")),
            reason: reason.to_owned(),
            kind,
            missing_votes: Vec::new(),
        }
    }
}

/// The demand for a reason, before the one for a score.
pub(super) fn reason_text(include: bool) -> &'static str {
    if include {
        "`reason`, one or two sentences that name what decided, and "
    } else {
        ""
    }
}
