//! Code graders with scripted results.

use std::sync::Mutex;

use async_trait::async_trait;
use futures::FutureExt as _;
use holodeck_eval::model::Redactor;
use holodeck_eval::{
    Asked, CalledTool, EvalInput, Grader, Judge, JudgeAnswer, JudgeError, JudgeRequest, MaskedInput,
    MetricOutcome, Programs, Verdict,
};
use holodeck_model::{CodeMetric, GraderFailure};
use serde_json::{Value, json};

use crate::grader::config;

struct NoJudge;

#[async_trait]
impl Judge for NoJudge {
    async fn ask(&self, _: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        Err(JudgeError::retryable("there is none"))
    }
}

/// Returns one result and keeps the context.
struct Scripted {
    result: Result<Value, GraderFailure>,
    context: Mutex<Value>,
}

#[async_trait]
impl Programs for Scripted {
    async fn run(&self, _: &CodeMetric, context: Value) -> Result<Value, GraderFailure> {
        *self.context.lock().unwrap() = context;
        self.result.clone()
    }
}

fn grade(
    result: Result<Value, GraderFailure>,
    threshold: &Value,
    input: &EvalInput<'_>,
) -> (MetricOutcome, Value) {
    let metric = json!({"type": "code", "grader": "m:check", "threshold": threshold});
    let grader = Grader::new(&[config(metric)]).unwrap();
    let programs = Scripted {
        result,
        context: Mutex::default(),
    };
    let asked = Asked {
        judge: &NoJudge,
        programs: &programs,
    };
    let masked = MaskedInput::new(*input, &Redactor::default(), Vec::new());
    let outcomes = grader.ask(&masked, grader.compute(input), &[], &asked, true);
    let outcome = outcomes.now_or_never().unwrap().remove(0);
    (outcome, programs.context.into_inner().unwrap())
}

fn verdict(result: Value, threshold: &Value) -> Verdict {
    grade(Ok(result), threshold, &EvalInput::default()).0.verdict
}

#[test]
fn a_grader_passes_by_its_verdict_its_threshold_or_one_half() {
    use Verdict::{Failed, Passed};
    for (result, threshold, expected) in [
        (json!(true), Value::Null, Passed),
        (json!(false), Value::Null, Failed),
        (json!(1), Value::Null, Passed),
        (json!(0.5), Value::Null, Passed),
        (json!(0.499), Value::Null, Failed),
        (json!(0.4), json!(0.4), Passed),
        (json!(0.9), json!(0.95), Failed),
        (json!(false), json!(0), Failed),
        (json!({"score": 0.1, "passed": true}), Value::Null, Passed),
        (json!({"score": 0.1, "passed": true}), json!(0.5), Failed),
        (json!({"score": 0.9, "passed": false}), json!(0.5), Failed),
        (json!({"score": 0.9, "passed": null}), Value::Null, Passed),
        (json!({"score": 0.1}), Value::Null, Failed),
    ] {
        assert_eq!(
            verdict(result.clone(), &threshold),
            expected,
            "{result} {threshold}"
        );
    }
}

#[test]
fn anything_else_is_an_error() {
    for result in [
        Value::Null,
        json!("1"),
        json!("passed"),
        json!([1]),
        json!({}),
        json!({"passed": true}),
        json!({"score": "1"}),
        json!({"score": true}),
        json!({"score": null}),
        json!({"score": 1, "passed": "true"}),
        json!({"score": 1, "passed": 1}),
        json!({"score": 1, "reason": 3}),
        json!({"score": 1, "Passed": false}),
        json!(1.001),
        json!(-0.1),
        json!(100),
    ] {
        assert_eq!(verdict(result.clone(), &Value::Null), Verdict::Error, "{result}");
        assert_eq!(verdict(result.clone(), &json!(0)), Verdict::Error, "{result}");
    }
    let (outcome, _) = grade(
        Err(GraderFailure::failed("it died")),
        &Value::Null,
        &EvalInput::default(),
    );
    assert_eq!((outcome.score, outcome.verdict), (None, Verdict::Error));
    assert_eq!(
        outcome.error.unwrap().to_string(),
        "code grader `check` gave no score: it died"
    );
}

#[test]
fn a_grader_receives_the_context_and_returns_details() {
    let (arguments, config) = (json!({"id": 7}), json!({"strict": true}));
    let passages = ["a".to_owned()];
    let mut call = CalledTool::new("lookup", &arguments);
    (call.result, call.duration_ms, call.failed) = (Some("é"), Some(3), true);
    let calls = [call];
    let input = EvalInput {
        input: "q",
        response: "r",
        tool_calls: &calls,
        retrieval_context: Some(&passages),
        turn_index: 2,
        test_case_name: Some("case"),
        turn_config: config.as_object(),
        ..EvalInput::default()
    };
    let result = json!({"score": 1, "reason": "why", "details": {"a": [1]}});
    let (outcome, context) = grade(Ok(result), &Value::Null, &input);
    assert_eq!(outcome.evidence, Some(json!({"a": [1]})));
    assert_eq!(outcome.reason.as_deref(), Some("why"));
    assert_eq!(
        context,
        json!({
            "turn_input": "q", "agent_response": "r", "ground_truth": null,
            "tool_invocations": [
                {"name": "lookup", "args": {"id": 7}, "result": "é", "bytes": 4, "duration_ms": 3, "error": "é"}
            ],
            "retrieval_context": ["a"], "turn_index": 2, "test_case_name": "case", "turn_config": {"strict": true}
        })
    );
}
