//! Compares a judge with people: asks it about answers that people judged.

mod stored;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{FutureExt as _, StreamExt as _, stream};
use holodeck_eval::{
    Asked, EvalInput, Grader, MetricOutcome, NoPrograms, Verdict,
    calibration::{CONFIDENCE, Calibration, LabelledVerdict, MIN_LABELS, Shortfall},
};
use holodeck_model::{LabelledAnswer, MetricConfig, Redactor, UnitKey};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    ExitCode, JudgeSettings, JudgeUsage, RunError,
    judging::{RunJudge, UnitJudge},
};

pub use stored::{CalibratedJudge, VerdictSource, store_calibration};

/// A request to compare a judge with people.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CalibrationRequest {
    /// The judged metric.
    pub metric: MetricConfig,
    /// The answers that people judged.
    pub answers: Vec<LabelledAnswer>,
    /// The judges.
    pub judge: JudgeSettings,
    /// Masks secrets, before a judge sees them.
    pub redactor: Arc<Redactor>,
}

/// A labelled answer and what the judge says about it. Both are masked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JudgedLabel {
    /// The answer.
    pub answer: LabelledAnswer,
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

    /// The case, else the question.
    pub fn name(&self) -> &str {
        self.answer.case.as_deref().unwrap_or(&self.answer.input)
    }
}

/// A judge compared with people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CalibrationRun {
    /// The name of the metric.
    pub metric: String,
    /// The names of its judges.
    pub judges: Vec<String>,
    /// The score from which an answer passes.
    pub threshold: Option<f64>,
    /// The labelled answers, in the order of the file.
    pub rows: Vec<JudgedLabel>,
    /// How far both agree, over the rows with a verdict; absent if there is none.
    pub calibration: Option<Calibration>,
    /// What the judge used.
    pub usage: JudgeUsage,
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

/// Asks the judge about every answer, and counts those that it has judged. The agent is not asked.
pub async fn calibrate(
    request: &CalibrationRequest,
    finished: &AtomicUsize,
) -> Result<CalibrationRun, RunError> {
    let grader = Grader::new(std::slice::from_ref(&request.metric))
        .map_err(|error| RunError::Metric(error.to_string()))?;
    // Nothing is kept in a journal.
    let (judge, _) = RunJudge::new(Some(request.judge.clone()), Arc::clone(&request.redactor));
    let asking = request.answers.iter().enumerate().map(|(place, answer)| {
        let name = format!("label {}", place + 1);
        let unit = judge.for_unit(UnitKey::NO_CASE, name, Vec::new(), CancellationToken::new());
        let judged = judge_answer(
            &grader,
            unit,
            masked(answer, &request.redactor),
            &request.redactor,
        );
        judged.inspect(|_| {
            finished.fetch_add(1, Ordering::Relaxed);
        })
    });
    // Each answer may ask several times; the judge itself limits its calls.
    let judged: Vec<(JudgedLabel, Option<JudgeUsage>)> = stream::iter(asking)
        .buffered(judge.concurrency().max(1))
        .collect()
        .await;
    judge.close().await?;
    let mut usage = JudgeUsage::default();
    let mut rows = Vec::with_capacity(judged.len());
    for (row, used) in judged {
        if let Some(used) = used {
            usage.add(&used);
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
        judges,
        threshold: request.metric.threshold(),
        calibration: Calibration::of(&verdicts),
        rows,
        usage,
    })
}

/// A judge must not see secrets.
fn masked(answer: &LabelledAnswer, redactor: &Redactor) -> LabelledAnswer {
    let mut answer = answer.clone();
    redactor.mask_text(&mut answer.input);
    redactor.mask_text(&mut answer.response);
    let truth = answer.ground_truth.iter_mut();
    for text in truth.chain(answer.retrieval_context.iter_mut().flatten()) {
        redactor.mask_text(text);
    }
    answer
}

async fn judge_answer(
    grader: &Grader,
    judge: UnitJudge<'_>,
    answer: LabelledAnswer,
    redactor: &Redactor,
) -> (JudgedLabel, Option<JudgeUsage>) {
    let passages = answer.retrieval_context.as_deref();
    let input = EvalInput {
        input: &answer.input,
        response: &answer.response,
        ground_truth: answer.ground_truth.as_deref(),
        retrieval_context: passages,
        context: passages,
        test_case_name: answer.case.as_deref(),
        ..EvalInput::default()
    };
    let asked = Asked {
        judge: &judge,
        programs: &NoPrograms,
    };
    let computed = grader.compute(&input);
    let outcome = grader.ask(&input, computed, &[], &asked, true).await.pop();
    let mut row = judged(outcome, answer);
    for text in row.reason.iter_mut().chain(row.verdict.as_mut().err()) {
        redactor.mask_text(text);
    }
    (row, judge.usage())
}

/// Only a score with a verdict counts: with `fail_on_error`, an error has the verdict of a missed gate.
fn judged(outcome: Option<MetricOutcome>, answer: LabelledAnswer) -> JudgedLabel {
    let Some(outcome) = outcome else {
        return JudgedLabel {
            answer,
            verdict: Err("the metric was not computed".to_owned()),
            reason: None,
        };
    };
    let passed = match outcome.verdict {
        Verdict::Passed => Some(true),
        Verdict::Failed => Some(false),
        Verdict::NotGated | Verdict::Error | Verdict::Skipped => None,
    };
    let verdict = match (outcome.error, outcome.score, passed) {
        (Some(error), ..) => Err(error.to_string()),
        (None, Some(score), Some(passed)) => Ok(LabelledVerdict {
            people: answer.passed,
            judge: passed,
            score,
            length: answer.response.chars().count(),
        }),
        (None, ..) => Err("the judge gave no verdict".to_owned()),
    };
    JudgedLabel {
        answer,
        verdict,
        reason: outcome.reason,
    }
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
        json!({
            "row": row.answer.location.to_string(),
            "case": row.answer.case,
            "input": row.answer.input,
            "response": row.answer.response,
            "people": row.answer.passed,
            "judge": verdict.map(|verdict| verdict.judge),
            "score": verdict.map(|verdict| verdict.score),
            "length": verdict.map(|verdict| verdict.length),
            "reason": row.reason,
            "error": row.verdict.as_ref().err(),
        })
    };
    json!({
        "calibration": run.metric,
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
