//! The metric that compares meanings: its score, and all that is an error.

use std::sync::Mutex;

use async_trait::async_trait;
use futures::FutureExt as _;
use holodeck_eval::model::Redactor;
use holodeck_eval::{
    Asked, Comparison, EvalInput, Grader, Judge, JudgeAnswer, JudgeError, JudgeErrorKind, JudgeRequest,
    MaskedInput, MetricOutcome, NoPrograms, Verdict,
};
use serde_json::{Value, json};

use crate::grader::{answer, config};

/// Answers with these similarities, the next at each comparison.
struct Embedder {
    answers: Mutex<Answers>,
    asked: Mutex<Vec<(Vec<String>, String)>>,
}

#[async_trait]
impl Judge for Embedder {
    async fn ask(&self, _: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        panic!("no model judges it")
    }

    async fn compare(&self, request: Comparison<'_>) -> Result<Vec<i64>, JudgeError> {
        self.asked.lock().unwrap().push((request.texts, request.query));
        self.answers.lock().unwrap().remove(0)
    }
}

type Questions = Vec<(Vec<String>, String)>;
type Answers = Vec<Result<Vec<i64>, JudgeError>>;
type Row<'a> = (Value, EvalInput<'a>, Answers, &'a str);

fn outcome(metric: Value, input: &EvalInput<'_>, answers: Answers) -> (MetricOutcome, Questions) {
    let embedder = Embedder {
        answers: Mutex::new(answers),
        asked: Mutex::default(),
    };
    let grader = Grader::new(&[config(metric)]).unwrap();
    let computed = grader.compute(input);
    let asked = Asked {
        judge: &embedder,
        programs: &NoPrograms,
    };
    let masked = MaskedInput::new(*input, &Redactor::default(), Vec::new());
    let outcomes = grader.ask(&masked, computed, &[], &asked, true);
    let outcome = outcomes.now_or_never().unwrap().remove(0);
    (outcome, embedder.asked.into_inner().unwrap())
}

fn similar(more: &Value) -> Value {
    let mut metric = json!({"metric": "similar", "threshold": 0.8});
    for (name, value) in more.as_object().unwrap() {
        metric[name] = value.clone();
    }
    metric
}

#[test]
fn the_score_is_the_highest_cosine_and_the_threshold_decides() {
    let several = json!({"value": ["one", "two", "three"]});
    for (more, cosines, score, verdict) in [
        (json!({}), vec![800_000], 0.8, Verdict::Passed),
        (json!({}), vec![799_999], 0.799_999, Verdict::Failed),
        (json!({}), vec![-700_000], 0.0, Verdict::Failed),
        (
            several.clone(),
            vec![100_000, 900_000, 300_000],
            0.9,
            Verdict::Passed,
        ),
        (
            several.clone(),
            vec![-100_000, -1_000_000, -2],
            0.0,
            Verdict::Failed,
        ),
        (json!({"threshold": 0.0}), vec![-1_000_000], 0.0, Verdict::Passed),
    ] {
        let (outcome, asked) = outcome(similar(&more), &answer("is", "should"), vec![Ok(cosines.clone())]);
        assert_eq!(outcome.score, Some(score), "{cosines:?}");
        assert_eq!(outcome.verdict, verdict, "{cosines:?}");
        let texts = if more.get("value").is_some() {
            vec!["one", "two", "three"]
        } else {
            vec!["should"]
        };
        assert_eq!(
            asked,
            [(texts.into_iter().map(str::to_owned).collect(), "is".to_owned())]
        );
    }
}

#[test]
fn whatever_is_no_similarity_is_an_error_and_never_a_verdict() {
    let with = |kind| {
        Err(JudgeError {
            reason: "the embedder is down".to_owned(),
            kind,
        })
    };
    let rows: Vec<Row<'_>> = vec![
        (
            json!({}),
            answer("is", "should"),
            vec![with(JudgeErrorKind::Final)],
            "the embedder is down",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![with(JudgeErrorKind::Retryable)],
            "the embedder is down",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![with(JudgeErrorKind::Credentials)],
            "the embedder is down",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![with(JudgeErrorKind::RecordingMiss)],
            "the embedder is down",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![Ok(Vec::new())],
            "0 similarities for 1 texts",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![Ok(vec![900_000, 900_000])],
            "2 similarities for 1 texts",
        ),
        (
            json!({"value": ["a", "b"]}),
            answer("is", "should"),
            vec![Ok(vec![900_000])],
            "1 similarities for 2 texts",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![Ok(vec![1_000_001])],
            "is not from -1 to 1",
        ),
        (
            json!({}),
            answer("is", "should"),
            vec![Ok(vec![-1_000_001])],
            "is not from -1 to 1",
        ),
        (
            json!({}),
            answer("", "should"),
            vec![Ok(vec![1_000_000])],
            "the answer is empty",
        ),
        (
            json!({}),
            answer(" \n", "should"),
            vec![Ok(vec![1_000_000])],
            "the answer is empty",
        ),
        (
            json!({}),
            answer("is", ""),
            vec![Ok(vec![1_000_000])],
            "an empty text has no embedding",
        ),
        (
            json!({"value": ["a", " "]}),
            answer("is", "should"),
            vec![Ok(vec![1, 2])],
            "an empty text has no embedding",
        ),
        (
            json!({}),
            EvalInput {
                ground_truth: None,
                ..answer("is", "should")
            },
            vec![Ok(vec![1_000_000])],
            "needs a `ground_truth`",
        ),
    ];
    for (more, input, answers, says) in rows {
        // Also where a threshold of 0 would let every score pass.
        let (outcome, _) = outcome(similar(&more), &input, answers.clone());
        assert_eq!((outcome.verdict, outcome.score), (Verdict::Error, None), "{says}");
        let error = outcome.error.unwrap().to_string();
        assert!(error.contains(says), "{error}");
        let mut lenient = more.clone();
        lenient["threshold"] = json!(0.0);
        let (outcome, _) = self::outcome(similar(&lenient), &input, answers);
        assert_eq!(outcome.verdict, Verdict::Error, "{says}");
    }
}

#[test]
fn only_what_can_help_is_asked_again() {
    let failing = |kind| {
        Err(JudgeError {
            reason: "busy".to_owned(),
            kind,
        })
    };
    let metric = similar(&json!({"retry_on_failure": 1}));
    let input = answer("is", "should");
    let (outcome, asked) = outcome(
        metric.clone(),
        &input,
        vec![failing(JudgeErrorKind::Retryable), Ok(vec![900_000])],
    );
    assert_eq!(
        (outcome.verdict, outcome.retries, asked.len()),
        (Verdict::Passed, 1, 2)
    );
    for kind in [
        JudgeErrorKind::Final,
        JudgeErrorKind::Credentials,
        JudgeErrorKind::RecordingMiss,
    ] {
        let (outcome, asked) = self::outcome(metric.clone(), &input, vec![failing(kind), Ok(vec![900_000])]);
        assert_eq!((outcome.verdict, asked.len()), (Verdict::Error, 1), "{kind:?}");
    }
}

#[test]
fn an_empty_list_of_texts_is_refused() {
    let error = Grader::new(&[config(similar(&json!({"value": []})))])
        .err()
        .unwrap();
    assert!(error.to_string().contains("nothing to compare with"), "{error}");
}
