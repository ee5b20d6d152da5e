//! Judged metrics and code graders on masked texts: each kind of metric with each text that it could read.

use std::sync::Mutex;

use async_trait::async_trait;
use futures::FutureExt as _;
use holodeck_eval::{
    Asked, CalledTool, ConversationTurn, EvalInput, Grader, InputText, JudgeRequest, MaskedInput, MaskedText,
    MetricOutcome, Programs, Verdict, VerdictFormat,
    model::{CodeMetric, GraderFailure, OnMasked, Redactor},
};
use serde_json::{Map, Value, json};

use crate::{
    grader::config,
    judges::{Scripted, value},
};

/// A text that is the same in no two places.
const TEXTS: [(&str, InputText); 11] = [
    ("secret-of-question", InputText::Question),
    ("secret-of-answer", InputText::Answer),
    ("secret-of-expected", InputText::GroundTruth),
    ("secret-of-context", InputText::Context),
    ("secret-of-retrieved", InputText::Retrieved),
    ("secret-of-passages", InputText::TurnPassages),
    ("secret-of-arguments", InputText::Arguments),
    ("secret-of-result", InputText::ToolResult),
    ("secret-of-goal", InputText::Goal),
    ("secret-of-name", InputText::CaseName),
    ("secret-of-config", InputText::TurnConfig),
];

/// Keeps what it is sent.
#[derive(Default)]
struct Program(Mutex<String>);

#[async_trait]
impl Programs for Program {
    async fn run(&self, _: &CodeMetric, context: Value) -> Result<Value, GraderFailure> {
        self.0.lock().unwrap().push_str(&context.to_string());
        Ok(json!(1))
    }
}

fn answer(request: &JudgeRequest<'_>) -> Value {
    match request.format {
        VerdictFormat::Items => json!({"items": ["one"]}),
        VerdictFormat::Verdicts => json!({"verdicts": [{"number": 1, "verdict": "yes", "reason": "r"}]}),
        VerdictFormat::Statements => {
            json!({"statements": [{"statement": "s", "verdict": "yes", "reason": "r"}]})
        }
        VerdictFormat::Goal { max } => json!({"score": max, "reason": "r", "evidence": [
            {"turn": 1, "effect": "contributed", "quote": "the answer begins"}]}),
        VerdictFormat::Score { max, .. } => json!({"score": max, "reason": "r"}),
        _ => json!(null),
    }
}

/// Whether a metric is about the conversation, and the metric.
fn metrics() -> Vec<(bool, Value)> {
    let mut metrics = Vec::new();
    for kind in [
        "faithfulness",
        "answer_relevancy",
        "contextual_precision",
        "contextual_recall",
        "contextual_relevancy",
    ] {
        metrics.push((false, json!({"type": "rag", "metric_type": kind})));
    }
    for kind in ["groundedness", "relevance", "coherence", "fluency"] {
        metrics.push((
            false,
            json!({"type": "standard", "metric": kind, "threshold": 0.5}),
        ));
        for more in ["", "{{input}}", "{{ground_truth}}", "{{context}}", "{{criteria}}"] {
            metrics.push((
                false,
                json!({"type": "standard", "metric": kind, "threshold": 0.5,
                    "custom_prompt": format!("{{{{response}}}} {more}")}),
            ));
        }
    }
    let params = [
        "input",
        "actual_output",
        "expected_output",
        "context",
        "retrieval_context",
    ];
    for of_conversation in [false, true] {
        for param in params {
            metrics.push((
                of_conversation,
                json!({"type": "geval", "name": "g", "criteria": "c", "evaluation_params": [param]}),
            ));
        }
        metrics.push((
            of_conversation,
            json!({"type": "geval", "name": "all", "criteria": "c", "evaluation_params": params,
                "judges": [{"provider": "openai", "name": "a"}, {"provider": "openai", "name": "b"}]}),
        ));
        let shown = if of_conversation {
            "{{conversation}}"
        } else {
            "{{response}}"
        };
        metrics.push((
            of_conversation,
            json!({"type": "geval", "name": "own", "criteria": "c", "custom_prompt": format!("{shown} {{{{context}}}}")}),
        ));
        metrics.push((of_conversation, json!({"type": "code", "grader": "m:check"})));
    }
    metrics.push((true, json!({"type": "goal_success"})));
    metrics.push((true, json!({"type": "goal_success", "goal": "a refund"})));
    metrics
}

struct Case {
    arguments: Value,
    config: Map<String, Value>,
    context: Option<Vec<String>>,
    retrieved: Vec<String>,
}

impl Case {
    fn new(has_context: bool) -> Self {
        let config = json!({"key": "secret-of-config"});
        Self {
            arguments: json!({"q": ["secret-of-arguments"]}),
            config: config.as_object().unwrap().clone(),
            context: has_context.then(|| vec!["a passage: secret-of-context".to_owned()]),
            retrieved: vec!["a passage: secret-of-retrieved".to_owned()],
        }
    }

    fn grade(
        &self,
        (of_conversation, metric): &(bool, Value),
        secret: Option<&str>,
        known: Vec<MaskedText>,
        default: OnMasked,
    ) -> (MetricOutcome, String) {
        let configs = [config(metric.clone())];
        let grader = if *of_conversation {
            Grader::for_conversation(&configs)
        } else {
            Grader::new(&configs)
        };
        let redactor = Redactor::new(secret.map(str::to_owned));
        let grader = grader.unwrap().on_masked(&configs, default, &redactor);
        let mut call = CalledTool::new("search", &self.arguments);
        call.result = Some("found: secret-of-result");
        let calls = [call];
        let turns = [ConversationTurn {
            input: "the question: secret-of-question",
            answer: "the answer begins: secret-of-answer",
            tool_calls: calls.to_vec(),
            retrieval_context: Some(vec!["secret-of-passages".to_owned()]),
        }];
        let input = EvalInput {
            input: "the question: secret-of-question",
            response: "the answer begins: secret-of-answer",
            ground_truth: Some("expected: secret-of-expected"),
            tool_calls: &calls,
            retrieval_context: self.context.as_deref().or(Some(&self.retrieved)),
            context: self.context.as_deref(),
            retrieved: Some(&self.retrieved),
            test_case_name: Some("secret-of-name"),
            turn_config: Some(&self.config),
            conversation: of_conversation.then_some(&turns[..]),
            goal: of_conversation.then_some("wants: secret-of-goal"),
            ..EvalInput::default()
        };
        let masked = MaskedInput::new(input, &redactor, known);
        let judge = Scripted::new(|request: &JudgeRequest<'_>| value(answer(request)));
        let programs = Program::default();
        let asked = Asked {
            judge: &judge,
            programs: &programs,
        };
        let outcomes = grader.ask(&masked, grader.compute(&input), &[], &asked, true);
        let outcome = outcomes.now_or_never().unwrap().pop().unwrap();
        let seen = judge.prompts().join("\n") + &programs.0.into_inner().unwrap();
        (outcome, seen)
    }
}

#[test]
fn a_metric_that_reads_a_masked_text_is_an_error_that_names_the_place_and_others_are_as_before() {
    let mut read = 0;
    for metric in metrics() {
        for has_context in [true, false] {
            let case = Case::new(has_context);
            let (plain, seen) = case.grade(&metric, None, Vec::new(), OnMasked::Error);
            let needs_context = !has_context && plain.error.is_some();
            assert!(
                plain.verdict == Verdict::Passed || needs_context,
                "{metric:?}: {plain:?}"
            );
            for (secret, text) in TEXTS {
                let what = format!("{metric:?} {secret} {has_context}");
                // Masked by this grading, and masked before, as in a stored record.
                let turn = metric.0.then_some(1);
                let stored = vec![MaskedText::new(text, turn)];
                for (secret, known) in [(Some(secret), Vec::new()), (None, stored)] {
                    let (outcome, shown) = case.grade(&metric, secret, known.clone(), OnMasked::Error);
                    if !seen.contains(TEXTS.iter().find(|row| row.1 == text).unwrap().0) {
                        if !needs_context {
                            assert_eq!(outcome.verdict, Verdict::Passed, "{what}: {:?}", outcome.error);
                        }
                        continue;
                    }
                    read += 1;
                    assert_eq!((outcome.verdict, outcome.score), (Verdict::Error, None), "{what}");
                    assert_eq!(shown, "", "{what}: nothing is asked");
                    let error = outcome.error.unwrap().to_string();
                    assert!(
                        error.contains("on_masked") && !error.contains("secret-of"),
                        "{error}"
                    );
                    // Accepted, it is graded without the masked part.
                    let (outcome, shown) = case.grade(&metric, secret, known, OnMasked::Accept);
                    assert_eq!(outcome.verdict, Verdict::Passed, "{what}");
                    assert!(secret.is_none_or(|secret| !shown.contains(secret)), "{what}");
                }
            }
        }
    }
    assert!(read > 200, "{read}");
}

#[test]
fn a_metric_decides_for_itself_before_the_default() {
    let case = Case::new(true);
    for (own, default, verdict) in [
        (json!(null), OnMasked::Error, Verdict::Error),
        (json!(null), OnMasked::Accept, Verdict::Passed),
        (json!("error"), OnMasked::Accept, Verdict::Error),
        (json!("accept"), OnMasked::Error, Verdict::Passed),
    ] {
        for mut metric in metrics() {
            metric.1["on_masked"] = own.clone();
            let masked = if seen_by_all(&metric) {
                "secret-of-answer"
            } else {
                continue;
            };
            let (outcome, _) = case.grade(&metric, Some(masked), Vec::new(), default);
            assert_eq!(outcome.verdict, verdict, "{metric:?} {default:?}");
        }
    }
}

fn seen_by_all(metric: &(bool, Value)) -> bool {
    let (_, seen) = Case::new(true).grade(metric, None, Vec::new(), OnMasked::Accept);
    seen.contains("secret-of-answer")
}

#[test]
fn a_field_for_the_judge_that_holds_a_secret_is_an_error_that_names_it_unless_it_is_accepted() {
    const SECRET: &str = "secret-of-file";
    let geval = |field: &str, value: Value| {
        let mut metric =
            json!({"type": "geval", "name": "g", "criteria": "c", "evaluation_params": ["expected_output"]});
        metric[field] = value;
        (metric, field.to_owned())
    };
    let text = format!("It must not hold {SECRET}.");
    let mut metrics = vec![
        (
            false,
            json!({"type": "standard", "metric": "fluency", "threshold": 0.5, "custom_prompt": format!("{{{{response}}}} {text}")}),
            "custom_prompt".to_owned(),
        ),
        (
            true,
            json!({"type": "goal_success", "goal": text.clone()}),
            "goal".to_owned(),
        ),
    ];
    for of_conversation in [false, true] {
        let shown = if of_conversation {
            "conversation"
        } else {
            "response"
        };
        for (metric, field) in [
            geval("criteria", json!(text)),
            geval("evaluation_steps", json!(["Read.", text])),
            geval(
                "rubric",
                json!([{"score_range": [0, 4], "expected_outcome": "bad"}, {"score_range": [5, 10], "expected_outcome": text}]),
            ),
            geval("custom_prompt", json!(format!("{{{{{shown}}}}} {text}"))),
        ] {
            metrics.push((of_conversation, metric, field));
        }
    }
    let case = Case::new(true);
    for (of_conversation, metric, field) in metrics {
        let metric = (of_conversation, metric);
        let grade = |secret, on_masked| case.grade(&metric, secret, Vec::new(), on_masked);
        assert_eq!(
            grade(None, OnMasked::Error).0.verdict,
            Verdict::Passed,
            "{metric:?}"
        );
        let (outcome, shown) = grade(Some(SECRET), OnMasked::Error);
        assert_eq!(
            (outcome.verdict, shown.as_str()),
            (Verdict::Error, ""),
            "{metric:?}"
        );
        let error = outcome.error.unwrap().to_string();
        assert!(error.contains(&format!("`{field}` held a secret")), "{error}");
        assert!(!error.contains(SECRET), "{error}");
        assert_eq!(
            grade(Some(SECRET), OnMasked::Accept).0.verdict,
            Verdict::Passed,
            "{metric:?}"
        );
    }
}

#[test]
fn an_error_names_tool_and_turn() {
    let case = Case::new(true);
    let error = |metric: Value, secret| {
        let (outcome, _) = case.grade(&(true, metric), Some(secret), Vec::new(), OnMasked::Error);
        outcome.error.unwrap().to_string()
    };
    let goal = json!({"type": "goal_success"});
    let text = error(goal.clone(), "secret-of-result");
    assert!(
        text.contains("the result of tool `search` in turn 1 held a secret"),
        "{text}"
    );
    let text = error(goal.clone(), "secret-of-goal");
    assert!(text.contains("the goal held a secret"), "{text}");
    let text = error(json!({"type": "code", "grader": "m:check"}), "secret-of-config");
    assert!(text.contains("`turn_config` held a secret"), "{text}");
}

#[test]
fn an_earlier_verdict_on_a_masked_text_is_not_kept() {
    let configs = [config(json!({"type": "geval", "name": "g", "criteria": "c"}))];
    let grader = Grader::new(&configs).unwrap();
    let input = EvalInput {
        response: "it is secret-of-answer",
        ..EvalInput::default()
    };
    let judge = Scripted::new(|request: &JudgeRequest<'_>| value(answer(request)));
    let asked = Asked {
        judge: &judge,
        programs: &Program::default(),
    };
    let ask = |redactor: &Redactor, kept: &[Option<MetricOutcome>]| {
        let masked = MaskedInput::new(input, redactor, Vec::new());
        let outcomes = grader.ask(&masked, grader.compute(&input), kept, &asked, true);
        outcomes.now_or_never().unwrap().pop().unwrap()
    };
    let passed = ask(&Redactor::default(), &[]);
    assert_eq!(passed.verdict, Verdict::Passed);
    let redactor = Redactor::new(["secret-of-answer".to_owned()]);
    assert_eq!(ask(&redactor, &[Some(passed)]).verdict, Verdict::Error);
}
