//! Compares a judge with people: asks it about answers or conversations that people judged.

mod ask;
mod stored;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{FutureExt as _, StreamExt as _, stream};
use holodeck_eval::calibration::{CONFIDENCE, Calibration, LabelledVerdict, MIN_LABELS, Shortfall};
use holodeck_judging::{JudgeSettings, RunJudge, TurnGrader};
use holodeck_model::{LabelledContent, LabelledItem, MetricConfig, OnMasked, Redactor, Spent, UnitKey};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::RunError;
use holodeck_runs::ExitCode;

use ask::{judge_item, masked};

pub use stored::{CalibratedJudge, VerdictSource, store_calibration};

/// A request to compare a judge with people.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CalibrationRequest {
    /// The judged metric.
    pub metric: MetricConfig,
    /// The subject of the metric.
    pub subject: JudgedSubject,
    /// The content that people judged.
    pub items: Vec<LabelledItem>,
    /// The judges.
    pub judge: JudgeSettings,
    /// Masks secrets, before a judge sees them.
    pub redactor: Arc<Redactor>,
    /// How to handle an item whose text held a secret and was masked, where the metric does not say it.
    pub on_masked: OnMasked,
}

/// The subject of a judged metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a metric measures one of these")]
pub enum JudgedSubject {
    /// Single answers.
    Answers,
    /// Whole conversations.
    Conversations,
}

impl JudgedSubject {
    /// The subject of these labels. All items of a file are of one kind.
    pub fn of(items: &[LabelledItem]) -> Self {
        match items.first() {
            Some(item) if item.content.is_conversation() => Self::Conversations,
            _ => Self::Answers,
        }
    }

    /// The word in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Conversations => "conversations",
        }
    }
}

/// A labelled item and what the judge says about it. Both are masked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JudgedLabel {
    /// The answer or the conversation.
    pub item: LabelledItem,
    /// The judge's verdict, or why there is none.
    pub verdict: Result<LabelledVerdict, String>,
    /// Why the judge decided so.
    pub reason: Option<String>,
}

impl JudgedLabel {
    /// Whether the judge decided otherwise than people.
    pub fn differs(&self) -> bool {
        matches!(self.verdict, Ok(verdict) if verdict.people != verdict.judge)
    }

    /// The case, else the first question.
    pub fn name(&self) -> &str {
        self.item.case.as_deref().unwrap_or(self.item.content.question())
    }

    /// The answers of the agent, as one text.
    pub fn text(&self) -> String {
        let answers: Vec<&str> = self.item.content.answers().collect();
        answers.join("\n")
    }
}

/// A judge compared with people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CalibrationRun {
    /// The name of the metric.
    pub metric: String,
    /// The subject of the judgements.
    pub subject: JudgedSubject,
    /// The names of its judges.
    pub judges: Vec<String>,
    /// The score from which an answer passes.
    pub threshold: Option<f64>,
    /// The labelled items, in the order of the file.
    pub rows: Vec<JudgedLabel>,
    /// How far both agree, over the rows with a verdict; absent if there is none.
    pub calibration: Option<Calibration>,
    /// The cost of the judge.
    pub usage: Spent,
}

impl CalibrationRun {
    /// How many answers the judge did not judge.
    pub fn errors(&self) -> usize {
        self.rows.iter().filter(|row| row.verdict.is_err()).count()
    }

    /// Why there is no κ, if there is none.
    pub fn shortfall(&self) -> Option<Shortfall> {
        match &self.calibration {
            Some(calibration) => calibration.kappa.err(),
            None => Some(Shortfall::TooFew),
        }
    }

    /// The exit code. An error of the judge is not evidence for or against it, so it leaves the result incomplete.
    pub fn exit(&self) -> ExitCode {
        if self.errors() > 0 || self.shortfall().is_some() {
            ExitCode::Metric
        } else {
            ExitCode::Passed
        }
    }
}

/// The text about missing labels.
pub fn describe_shortfall(shortfall: Shortfall) -> String {
    match shortfall {
        Shortfall::OneClass => {
            "people passed all of these answers, or none: label answers of both kinds".to_owned()
        }
        _ => format!("κ needs at least {MIN_LABELS} answers that people and the judge judged"),
    }
}

/// Asks the judge about every item, and counts those that it has judged. The agent is not asked.
pub async fn calibrate(
    request: &CalibrationRequest,
    finished: &AtomicUsize,
) -> Result<CalibrationRun, RunError> {
    let metrics = std::slice::from_ref(&request.metric);
    let prepare = match request.subject {
        JudgedSubject::Answers => TurnGrader::new,
        JudgedSubject::Conversations => TurnGrader::for_conversation,
    };
    let grader = prepare(metrics, request.on_masked, &request.redactor);
    let grader = grader.map_err(|error| RunError::Metric(error.to_string()))?;
    // Nothing is kept in a journal.
    let (judge, _) = RunJudge::new(Some(request.judge.clone()), Value::Null, &request.redactor);
    let asking = request.items.iter().map(|item| {
        // Recordings name the item by what it is, so that rows may be added or sorted.
        let name = format!("label {}", digest_item(&masked(item, &request.redactor)));
        let unit = judge.for_unit(UnitKey::NO_CASE, name, Vec::new(), CancellationToken::new());
        judge_item(&grader, request.subject, unit, item, &request.redactor).inspect(|_| {
            finished.fetch_add(1, Ordering::Relaxed);
        })
    });
    // Each item may ask several times; the judge itself limits its calls.
    let judged: Vec<(JudgedLabel, Option<Spent>)> = stream::iter(asking)
        .buffered(judge.concurrency().max(1))
        .collect()
        .await;
    judge.close().await?;
    let mut usage = Spent::default();
    let mut rows = Vec::with_capacity(judged.len());
    for (row, used) in judged {
        if let Some(used) = used {
            usage += used;
        }
        rows.push(row);
    }
    let verdicts: Vec<LabelledVerdict> = rows.iter().filter_map(|row| row.verdict.clone().ok()).collect();
    let judging = request.metric.judging();
    let named = judging.map_or(&[][..], |judging| judging.judges);
    let judges = if named.is_empty() {
        judge.name(None).into_iter().collect()
    } else {
        named.iter().filter_map(|model| judge.name(Some(model))).collect()
    };
    Ok(CalibrationRun {
        metric: request.metric.name().to_owned(),
        subject: request.subject,
        judges,
        threshold: request.metric.threshold(),
        calibration: Calibration::of(&verdicts),
        rows,
        usage,
    })
}

/// Digest of an item and of what the judge sees with it, without its label.
fn digest_item(item: &LabelledItem) -> String {
    let with = (&item.ground_truth, &item.retrieval_context);
    let seen = match &item.content {
        LabelledContent::Answer { input, response } => {
            serde_json::to_vec(&(&item.case, input, response, with.0, with.1))
        }
        LabelledContent::Conversation { goal, turns } => {
            serde_json::to_vec(&(&item.case, goal, turns, with.0, with.1))
        }
    };
    // Texts can always be written as JSON.
    stored::digest(&seen.unwrap_or_default())
}

/// The result as one JSON object.
pub fn calibration_json(run: &CalibrationRun) -> Value {
    let calibration = run.calibration.as_ref();
    let kappa = calibration.and_then(|calibration| calibration.kappa.ok());
    let shortfall = run.shortfall().map(|shortfall| match shortfall {
        Shortfall::OneClass => "one_class",
        _ => "too_few",
    });
    let row = |row: &JudgedLabel| {
        let verdict = row.verdict.as_ref().ok();
        let (input, response, turns) = match &row.item.content {
            LabelledContent::Answer { input, response } => (Some(input), Some(response), None),
            LabelledContent::Conversation { turns, .. } => (None, None, Some(turns)),
        };
        let mut fields = json!({
            "row": row.item.location.to_string(),
            "case": row.item.case,
            "input": input,
            "response": response,
            "people": row.item.passed,
            "judge": verdict.map(|verdict| verdict.judge),
            "score": verdict.map(|verdict| verdict.score),
            "length": verdict.map(|verdict| verdict.length),
            "reason": row.reason,
            "error": row.verdict.as_ref().err(),
        });
        if let (Some(turns), Some(fields)) = (turns, fields.as_object_mut()) {
            fields.retain(|name, _| name != "input" && name != "response");
            fields.insert("turns".to_owned(), json!(turns));
        }
        fields
    };
    json!({
        "calibration": run.metric,
        "subject": run.subject.as_str(),
        "judges": run.judges,
        "threshold": run.threshold,
        "labels": run.rows.len(),
        "judged": calibration.map_or(0, |calibration| calibration.labels),
        "errors": run.errors(),
        "agreement": calibration.map(|calibration| calibration.agreement),
        "kappa": kappa.map(|kappa| kappa.value),
        "kappa_ci": kappa.and_then(|kappa| kappa.interval).map(|interval| [interval.low, interval.high]),
        "confidence": CONFIDENCE,
        "shortfall": shortfall,
        "confusion": calibration.map(|calibration| {
            let [[both_fail, judge_only], [people_only, both_pass]] = calibration.confusion;
            json!({
                "both_pass": both_pass,
                "both_fail": both_fail,
                "only_people_pass": people_only,
                "only_judge_passes": judge_only,
            })
        }),
        "suggested": kappa.and_then(|kappa| kappa.suggested).map(|suggested| {
            json!({"threshold": suggested.threshold, "kappa": suggested.kappa})
        }),
        "verbosity": calibration.map(|calibration| {
            let verbosity = &calibration.verbosity;
            json!({"judge": verbosity.judge, "people": verbosity.people, "error": verbosity.error})
        }),
        "judge_usage": run.usage,
        "exit_code": run.exit().code(),
        "rows": run.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
