//! Tests of the grading stage with scripted judges: calls, retries, cancellation, and that a judge sees no secret.

use std::time::Duration;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, BackendEvent, TokenUsage};
use holodeck_eval::{JUDGE_PROMPTS, VerdictFormat};
use holodeck_judging::{Judges, OpenJudge};
use holodeck_model::{
    CaseState, CheckIdentities, Env, ExecutionState, GraderFiles, MemoryFiles, ModelConfig, Spent, UnitKey,
    identify_cases,
};
use holodeck_testkit::{Asked, ScriptedBackend, ScriptedTurn};
use holodeck_turn::{
    FileReader, Prices, TurnRecord, TurnRunner,
    documents::{Converter, Isolation},
};
use holodeck_yaml::load_agent;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{Budget, budget::Meter};
use holodeck_runs::{RunEnd, RunEndKind};

const KEY: &str = concat!("sk-", "proj-AbCdEf0123456789AbCdEf0123456789");

/// Opens the same backend for every judge.
struct OneJudge {
    backend: ScriptedBackend,
}

#[async_trait]
impl Judges for OneJudge {
    async fn open(&self, _: Option<&ModelConfig>, _: VerdictFormat) -> Result<OpenJudge, BackendError> {
        Ok(OpenJudge {
            backend: Arc::new(self.backend.clone()),
            turns: Arc::new(TurnRunner {
                files: FileReader::new(Converter::new(Isolation::None), Duration::from_mins(1)),
                prices: Prices::embedded(),
                model: "gpt-4o".to_owned(),
                timeout: Some(Duration::from_secs(5)),
                timeout_source: "`llm_timeout`".to_owned(),
            }),
        })
    }

    fn name(&self, _: Option<&ModelConfig>) -> String {
        "gpt-4o".to_owned()
    }

    async fn close(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// A stage with two metrics: the answer must not contain the key, and a judge scores it.
fn stage(judge: &ScriptedBackend, retries: u32) -> Arc<GradingStage> {
    stage_with(judge, retries, "is it good?")
}

fn stage_with(judge: &ScriptedBackend, retries: u32, criteria: &str) -> Arc<GradingStage> {
    let path = std::path::Path::new("/a/agent.yaml");
    let retries = match retries {
        0 => String::new(),
        retries => format!(", retry_on_failure: {retries}"),
    };
    let yaml = format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}}\n\
                instructions: {{inline: be kind}}\n\
                evaluations:\n  metrics:\n\
                \x20   - {{type: standard, metric: contains, value: sk-proj, negate: true}}\n\
                \x20   - {{type: geval, name: judged, criteria: {criteria}, evaluation_steps: [look], timeout_ms: 5000{retries}}}\n\
                test_cases: [{{input: q}}]\n"
    );
    let files = MemoryFiles::new().with(path, yaml);
    let load = load_agent(path, &Env::empty(), &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics));
    let checks = CheckIdentities::new(&agent, JUDGE_PROMPTS, Arc::default(), GraderFiles::new());
    let redactor = Arc::new(Redactor::default());
    let graders = Graders::new(&agent, &Arc::new(checks), &redactor).unwrap();
    let judges = OneJudge {
        backend: judge.clone(),
    };
    let settings = JudgeSettings::new(Arc::new(judges), 1);
    let (judge, _) = RunJudge::new(Some(settings), Value::Null, &redactor);
    Arc::new(GradingStage {
        agent: agent.agent,
        graders,
        redactor,
        judge,
        programs: Arc::new(holodeck_eval::NoPrograms),
        renew: Renew::All,
        without_loop: false,
        repeated_names: HashSet::new(),
    })
}

fn unit_with_answer(stage: &GradingStage, text: &str) -> UnitRecord {
    let case = identify_cases(&stage.agent.config.test_cases, &MemoryFiles::new())[0];
    let mut turn = TurnRecord {
        state: ExecutionState::Completed,
        ..TurnRecord::default()
    };
    text.clone_into(&mut turn.result.response);
    UnitRecord {
        route: None,
        key: UnitKey {
            case: case.id,
            trial: 0,
        },
        case,
        name: None,
        conversation: false,
        at: String::new(),
        turns: vec![turn],
        failures: Vec::new(),
        user: None,
        quality_loop: None,
    }
}

fn good(_: &Asked) -> ScriptedTurn {
    // The text adds 15 tokens.
    ScriptedTurn::text("good")
        .and_event(BackendEvent::StructuredOutput(
            json!({"score": 10, "reason": "good"}),
        ))
        .and_usage(TokenUsage::new(1_000, 1_000))
}

/// A cut answer in which a score survived.
fn good_event() -> ScriptedTurn {
    ScriptedTurn::text("goo").and_event(BackendEvent::StructuredOutput(
        json!({"score": 10, "reason": "good"}),
    ))
}

fn provider_error(retryable: bool) -> ScriptedTurn {
    ScriptedTurn::failing(BackendError::Provider {
        status: Some(if retryable { 503 } else { 400 }),
        code: None,
        explanation: "no".into(),
        param: None,
        retryable,
        retry_after: None,
    })
}

/// The state, and the error of the judged metric.
async fn grade(stage: &Arc<GradingStage>) -> (CaseState, Option<String>) {
    let unit = Box::new(unit_with_answer(stage, "an answer"));
    let (_, grade) = Arc::clone(stage)
        .grade(0, unit, Earlier::default(), CancellationToken::new())
        .await;
    let grade = grade.unwrap();
    (grade.state, grade.turns[0].metrics[1].error.clone())
}

#[tokio::test]
async fn a_judge_is_called_once_and_its_usage_is_counted() {
    let judge = ScriptedBackend::answering(good);
    let stage = stage(&judge, 2);
    let unit = Box::new(unit_with_answer(&stage, "an answer"));
    assert!(!stage.is_short(0, &unit));
    let (_, grade) = Arc::clone(&stage)
        .grade(0, unit, Earlier::default(), CancellationToken::new())
        .await;
    let grade = grade.unwrap();
    assert_eq!((grade.state, judge.turns()), (CaseState::Passed, 1));
    let usage = grade.judging.unwrap();
    let tokens = usage.tokens.map(|usage| usage.total_tokens);
    assert_eq!((usage.calls, tokens), (1, Some(2_015)));
    assert!(usage.cost_usd.unwrap() > 0.0);
    let mut meter = Meter::new(Budget {
        max_tokens_total: Some(2_000),
        ..Budget::default()
    });
    let kind = |end: Option<RunEnd>| end.map(|end| end.how);
    assert_eq!(kind(meter.add_grade(&grade)), Some(RunEndKind::Budget));
    let unknown = Grade {
        judging: Some(Spent {
            tokens: None,
            ..usage
        }),
        ..grade
    };
    assert_eq!(kind(meter.add_grade(&unknown)), Some(RunEndKind::Unenforceable));
}

#[tokio::test(start_paused = true)]
async fn a_failed_judge_call_is_retried_if_retryable_and_otherwise_an_error() {
    let flaky = ScriptedBackend::answering(|asked| match asked.index {
        0 => provider_error(true),
        _ => good(asked),
    });
    assert_eq!(grade(&stage(&flaky, 1)).await, (CaseState::Passed, None));
    assert_eq!(flaky.turns(), 2);
    let not_judged = |reason: &str| {
        (
            CaseState::Error,
            Some(format!(
                "`judged` has no verdict: the judge `gpt-4o` (score): {reason}"
            )),
        )
    };
    for (turn, calls, reason) in [
        (provider_error as fn(bool) -> ScriptedTurn, 2, "no"),
        (|_| provider_error(false), 1, "no"),
        (
            |_| ScriptedTurn::hanging(),
            2,
            "timeout exceeded (5 s, `timeout_ms`)",
        ),
        (
            |_| good_event().and_stop(holodeck_backend_api::StopReason::MaxTokens),
            2,
            "it did not finish: answer truncated at max_tokens",
        ),
    ] {
        let judge = ScriptedBackend::answering(move |_| turn(true));
        assert_eq!(grade(&stage(&judge, 1)).await, not_judged(reason));
        assert_eq!(judge.turns(), calls, "{reason}");
    }
}

#[tokio::test]
async fn a_stopped_judge_call_gives_no_grade() {
    let judge = ScriptedBackend::answering(|_| ScriptedTurn::hanging());
    let stage = stage(&judge, 2);
    let cancel = CancellationToken::new();
    let grading = Arc::clone(&stage).grade(
        0,
        Box::new(unit_with_answer(&stage, "an answer")),
        Earlier::default(),
        cancel.clone(),
    );
    let stopping = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let ((_, grade), ()) = tokio::join!(grading, stopping);
    assert_eq!((grade, judge.turns()), (None, 1));
}

#[tokio::test]
async fn a_judge_is_not_asked_about_a_masked_answer_and_checks_keep_what_they_saw() {
    let judge = ScriptedBackend::answering(|asked| {
        assert!(!asked.message.contains(KEY), "{}", asked.message);
        good(asked)
    });
    let stage = stage(&judge, 0);
    let unit = Box::new(unit_with_answer(&stage, &format!("the key is {KEY}")));
    let cancel = CancellationToken::new;
    let (mut unit, checks) = Arc::clone(&stage).check(0, unit).await;
    let checked: Vec<_> = checks.metrics().map(|metric| metric.passed).collect();
    assert_eq!((checked, judge.turns()), (vec![Some(false)], 0));
    unit.mask(&stage.redactor);
    let earlier = Earlier {
        checks: Some(checks),
        ..Earlier::default()
    };
    let (unit, grade) = Arc::clone(&stage).grade(0, unit, earlier, cancel()).await;
    let grade = grade.unwrap();
    let passed: Vec<_> = grade.turns[0]
        .metrics
        .iter()
        .map(|metric| metric.passed)
        .collect();
    assert_eq!((passed, judge.turns()), (vec![Some(false), None], 0));
    let error = grade.turns[0].metrics[1].error.clone().unwrap();
    assert!(
        error.contains("the answer held a secret and was masked"),
        "{error}"
    );
    assert_eq!(grade.state, CaseState::Failed);
    // Without the checks from before masking, the verdict is unknown.
    let (_, grade) = Arc::clone(&stage)
        .grade(0, unit, Earlier::default(), cancel())
        .await;
    assert_eq!(grade.unwrap().turns[0].metrics[0].passed, None);
}

#[tokio::test]
async fn a_secret_in_the_criteria_is_masked_before_the_judge_sees_it() {
    for (on_masked, state, asked) in [
        ("", CaseState::Error, 0),
        (", on_masked: accept", CaseState::Passed, 1),
    ] {
        let judge = ScriptedBackend::answering(|asked| {
            assert!(!asked.message.contains(KEY), "{}", asked.message);
            assert!(asked.message.contains("never says ***"), "{}", asked.message);
            good(asked)
        });
        let stage = stage_with(&judge, 0, &format!("it never says {KEY}{on_masked}"));
        let (graded, error) = grade(&stage).await;
        assert_eq!((graded, judge.turns()), (state, asked), "{error:?}");
        if asked == 0 {
            assert!(error.unwrap().contains("`criteria` held a secret"));
        }
    }
}
