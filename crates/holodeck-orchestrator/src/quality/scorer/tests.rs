//! Tests that scores combine metrics and judges, and that a missing score is an error and never zero.

#![allow(clippy::float_cmp, reason = "scores are exact decimals")]

use std::{sync::Mutex, time::Duration};

use holodeck_eval::{Judge, JudgeAnswer, JudgeRequest, NoPrograms};
use holodeck_model::{CodeMetric, GraderFailure, Spent};
use holodeck_turn::TurnRecord;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

/// Answers with the next of these values.
#[derive(Default)]
struct Judged {
    answers: Mutex<Vec<Value>>,
    prompts: Mutex<Vec<String>>,
}

impl Judged {
    fn answering(answers: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let mut answers: Vec<Value> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            prompts: Mutex::default(),
        })
    }
}

#[async_trait]
impl Judge for Judged {
    async fn ask(&self, request: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        self.prompts.lock().unwrap().push(request.prompt);
        match self.answers.lock().unwrap().pop() {
            Some(value) => Ok(JudgeAnswer {
                value,
                ..JudgeAnswer::default()
            }),
            None => Err(JudgeError::retryable("unreachable")),
        }
    }
}

impl CountingJudge for Judged {
    fn begin(&self, _: u32) {}

    fn take_spent(&self) -> Spent {
        Spent::default()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn metric(kind: &str, fields: Value) -> MetricConfig {
    serde_json::from_value(json!({ kind: fields })).unwrap()
}

fn parts(metrics: Vec<MetricConfig>, judge: Option<LoopJudge>) -> Arc<ScorerParts> {
    let redactor = Arc::new(Redactor::default());
    Arc::new(
        ScorerParts::new(
            metrics,
            judge,
            None,
            Arc::new(NoPrograms),
            (redactor, OnMasked::Error),
        )
        .unwrap(),
    )
}

fn loop_judge(repeats: u32) -> LoopJudge {
    LoopJudge {
        criteria: "It is short".to_owned(),
        model: None,
        judge_repeats: Some(repeats),
    }
}

fn verdict(score: u32, unachievable: bool) -> Value {
    json!({"score": score, "reason": format!("r{score}"), "improvements": [format!("i{score}")], "unachievable": unachievable})
}

#[tokio::test]
async fn metrics_and_judge_are_averaged_in_points() {
    let contains = metric("standard", json!({"metric": "contains", "value": "Paris"}));
    let parts = parts(vec![contains], Some(loop_judge(1)));
    let scorer = parts.for_task("The capital?", Judged::answering([verdict(60, false)]));
    let assessment = scorer.score(&LoopOutput::new("Paris.")).await.unwrap();
    assert_eq!(assessment.score, Some(80.0));
    assert_eq!(
        assessment.metrics,
        [("contains".to_owned(), 100.0), ("judge".to_owned(), 60.0)]
    );
    assert_eq!(assessment.improvements, ["i60"]);
    // One verdict says nothing about the noise.
    assert_eq!(assessment.noise, None);
}

#[tokio::test]
async fn repeated_verdicts_have_a_mean_and_a_known_noise() {
    let parts = parts(Vec::new(), Some(loop_judge(3)));
    let judge = Judged::answering([verdict(50, true), verdict(60, false), verdict(70, true)]);
    let assessment = parts
        .for_task("q", judge)
        .score(&LoopOutput::new("a"))
        .await
        .unwrap();
    // The standard deviation is 10, that of the mean 10 / √3.
    assert_eq!(assessment.score, Some(60.0));
    assert!((assessment.noise.unwrap() - 10.0 / 3.0_f64.sqrt()).abs() < 1e-9);
    assert_eq!(assessment.reason.as_deref(), Some("r60"));
    assert!(assessment.unachievable);
}

#[tokio::test]
async fn a_judge_without_an_answer_is_a_scorer_error_after_one_more_attempt() {
    let parts = parts(Vec::new(), Some(loop_judge(1)));
    let judge = Judged::answering([]);
    let error = parts.for_task("q", Arc::clone(&judge) as Arc<dyn CountingJudge>);
    let error = error.score(&LoopOutput::new("a")).await.unwrap_err();
    assert_eq!(error.reason, "the judge gave no score: unreachable");
    assert_eq!(judge.prompts.lock().unwrap().len(), 2);
}

/// A grader that always returns the same.
struct Grades(Result<Value, GraderFailure>);

#[async_trait]
impl Programs for Grades {
    async fn run(&self, _: &CodeMetric, _: Value) -> Result<Value, GraderFailure> {
        self.0.clone()
    }
}

async fn graded(result: Result<Value, GraderFailure>) -> Result<Assessment, ScorerError> {
    let code = metric("code", json!({"name": "check", "command": "./check"}));
    let masking = (Arc::new(Redactor::default()), OnMasked::Error);
    let parts = ScorerParts::new(vec![code], None, None, Arc::new(Grades(result)), masking).unwrap();
    let scorer = Arc::new(parts).for_task("q", Judged::answering([]));
    scorer.score(&LoopOutput::new("a")).await
}

#[tokio::test]
async fn a_metric_of_58_hundredths_has_58_points_alone_and_in_a_mean() {
    assert_eq!(graded(Ok(json!(0.58))).await.unwrap().score, Some(58.0));
    for hundredths in 0..=100_u32 {
        let written: Value = serde_json::from_str(&format!("{}e-2", f64::from(hundredths))).unwrap();
        let points = graded(Ok(written)).await.unwrap().score;
        assert_eq!(points, Some(f64::from(hundredths)));
    }
    let part = |score| Part {
        name: "m".to_owned(),
        score: Ok(score),
        noise: None,
    };
    let scores = [0.57, 0.59, 0.58].map(|score| part(points(score)));
    assert_eq!(mean(&scores), Ok(58.0));
    assert_eq!(raised(57.3, 0.7), 58.0);
    assert_eq!(raised(99.0, 5.0), 100.0);
}

#[tokio::test]
async fn what_a_grader_returns_instead_of_a_score_is_an_invalid_score_and_a_broken_grader_a_failure() {
    for (result, named) in [
        (json!(null), "the result is null"),
        (json!("0.8"), "the result is a text"),
        (json!([0.8]), "the result is a list"),
        (json!({}), "the result has no `score`"),
        (json!({"score": null}), "`score` is null"),
        (json!({"score": "0.8"}), "`score` is a text"),
        (json!({"score": true}), "`score` is a boolean"),
        (json!({"score": {"value": 1}}), "`score` is an object"),
        (json!(80), "80 is not between 0 and 1"),
        (json!(-0.01), "-0.01 is not between 0 and 1"),
        (json!({"score": 1.01}), "1.01 is not between 0 and 1"),
    ] {
        let assessment = graded(Ok(result.clone())).await.expect("it is no failure");
        assert_eq!(assessment.score, None, "{result}");
        let reason = assessment.invalid.unwrap();
        assert!(reason.contains(named) && reason.contains("`check`"), "{reason}");
    }
    let invalid = GraderFailure::NotAScore("`score` is nan, not a score".to_owned());
    assert!(graded(Err(invalid)).await.unwrap().invalid.is_some());
    for broken in [
        Err(GraderFailure::failed("it died")),
        Ok(json!({"score": 1, "passed": "yes"})),
        Ok(json!({"score": 1, "Passed": true})),
    ] {
        assert!(graded(broken).await.is_err());
    }
}

#[tokio::test]
async fn a_judge_that_twice_gives_no_valid_score_is_an_invalid_score_of_the_whole() {
    let odd = |score: Value| {
        let mut answer = verdict(0, false);
        match score {
            Value::Object(_) => drop(answer.as_object_mut().unwrap().remove("score")),
            score => answer["score"] = score,
        }
        answer
    };
    let contains = metric("standard", json!({"metric": "contains", "value": "Paris"}));
    for (score, named) in [
        (json!(101), "the score 101 is not between 0 and 100"),
        (json!(-1), "the score -1 is not between 0 and 100"),
        (json!(null), "`score` is null"),
        (json!("80"), "`score` is a text"),
        (json!({}), "`score` is null"),
    ] {
        let parts = parts(vec![contains.clone()], Some(loop_judge(1)));
        let judge = Judged::answering([odd(score.clone()), odd(score.clone())]);
        let scorer = parts.for_task("q", Arc::clone(&judge) as Arc<dyn CountingJudge>);
        let assessment = scorer.score(&LoopOutput::new("Paris")).await.unwrap();
        assert_eq!(assessment.score, None, "{score}");
        assert!(
            assessment.invalid.as_deref().unwrap().contains(named),
            "{assessment:?}"
        );
        assert_eq!(assessment.metrics, [("contains".to_owned(), 100.0)]);
        assert_eq!(judge.prompts.lock().unwrap().len(), 2);

        // The second answer counts.
        let judge = Judged::answering([odd(score), verdict(60, false)]);
        let scorer = parts.for_task("q", judge);
        assert_eq!(
            scorer.score(&LoopOutput::new("Paris")).await.unwrap().score,
            Some(80.0)
        );
    }
}

#[tokio::test]
async fn a_judged_metric_without_a_valid_score_is_an_invalid_score() {
    let geval = metric(
        "geval",
        json!({"name": "g", "criteria": "x", "evaluation_steps": ["y"]}),
    );
    let parts = parts(vec![geval], None);
    let odd = json!({"reason": "r", "score": 11});
    let scorer = parts.for_task("q", Judged::answering([odd.clone(), odd.clone()]));
    let assessment = scorer.score(&LoopOutput::new("a")).await.unwrap();
    assert_eq!(assessment.score, None);
    let reason = assessment.invalid.unwrap();
    assert!(
        reason.contains("the score 11 is not between 0 and 10"),
        "{reason}"
    );
    let scorer = parts.for_task("q", Judged::answering([odd]));
    assert!(scorer.score(&LoopOutput::new("a")).await.is_err(), "unreachable");
}

#[tokio::test]
async fn a_metric_that_cannot_be_computed_is_a_scorer_error_and_not_zero() {
    let bleu = metric("standard", json!({"metric": "bleu"}));
    let scorer = parts(vec![bleu], None).for_task("q", Judged::answering([]));
    let error = scorer.score(&LoopOutput::new("a")).await.unwrap_err();
    assert!(
        error.reason.contains("needs a `ground_truth`"),
        "{}",
        error.reason
    );
}

#[tokio::test]
async fn a_judge_sees_no_secret_and_scores_a_masked_answer_only_if_that_is_accepted() {
    let secret = "hunter22-very-secret";
    let parts = |on_masked, criteria: &str| {
        let redactor = Arc::new(Redactor::new([secret.to_owned()]));
        let mut judge = loop_judge(1);
        criteria.clone_into(&mut judge.criteria);
        let judge = Some(judge);
        let masking = (redactor, on_masked);
        Arc::new(ScorerParts::new(Vec::new(), judge, None, Arc::new(NoPrograms), masking).unwrap())
    };
    let leaking = format!("it is {secret}");
    let mut replayed = TurnRecord::default();
    "it is ***".clone_into(&mut replayed.result.response);
    replayed.redacted.answer = true;
    let criteria = "It is short";
    for (criteria, task, output, place) in [
        (
            criteria,
            "q",
            LoopOutput::new(leaking.as_str()),
            "the answer held a secret",
        ),
        (
            criteria,
            leaking.as_str(),
            LoopOutput::new("a"),
            "the task held a secret",
        ),
        (
            leaking.as_str(),
            "q",
            LoopOutput::new("a"),
            "`criteria` held a secret",
        ),
        (
            criteria,
            "q",
            LoopOutput {
                turn: Some(Arc::new(replayed)),
                ..LoopOutput::new("it is ***")
            },
            "the answer held a secret",
        ),
    ] {
        for on_masked in [OnMasked::Error, OnMasked::Accept] {
            let judge = Judged::answering([verdict(60, false)]);
            let scorer =
                parts(on_masked, criteria).for_task(task, Arc::clone(&judge) as Arc<dyn CountingJudge>);
            let scored = scorer.score(&output).await;
            let prompts = judge.prompts.lock().unwrap().concat();
            assert!(!prompts.contains("hunter22"));
            match on_masked {
                OnMasked::Error => {
                    let error = scored.unwrap_err().reason;
                    assert!(error.contains(place) && !error.contains("hunter22"), "{error}");
                    assert_eq!(prompts, "", "the judge is not asked");
                }
                OnMasked::Accept => assert_eq!(scored.unwrap().score, Some(60.0)),
            }
        }
    }
}

#[test]
fn noise_is_zero_where_the_score_is_computed_and_unknown_for_programs() {
    let contains = metric("standard", json!({"metric": "contains", "value": "Paris"}));
    let code = metric("code", json!({"name": "c", "command": "./c"}));
    let geval = metric("geval", json!({"name": "g", "criteria": "x", "judge_repeats": 2}));
    let outcome = |evidence: Value| MetricOutcome {
        name: "m".to_owned(),
        kind: holodeck_eval::MetricKind::Geval,
        score: Some(0.5),
        threshold: None,
        verdict: Verdict::NotGated,
        reason: None,
        error: None,
        evidence: Some(evidence),
        retries: 0,
        missing_votes: Vec::new(),
        evaluation_time: Duration::ZERO,
    };
    assert_eq!(metric_noise(&contains, &outcome(Value::Null)), Some(0.0));
    assert_eq!(metric_noise(&code, &outcome(Value::Null)), None);
    assert_eq!(metric_noise(&geval, &outcome(json!({"raw": 5}))), None);
    let repeated = json!({"judges": [{"score": 0.5, "scores": [0.4, 0.6]}]});
    let noise = metric_noise(&geval, &outcome(repeated)).unwrap();
    assert!((noise - 10.0).abs() < 1e-9, "{noise}");
    // Of two judges of whom one was asked once, nothing is known.
    let partly = json!({"judges": [{"score": 0.5, "scores": [0.4, 0.6]}, {"score": 0.5}]});
    assert_eq!(metric_noise(&geval, &outcome(partly)), None);
}
