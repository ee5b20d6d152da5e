//! The chain of executors and its telemetry.

use std::{io, sync::Arc};

use async_trait::async_trait;
use holodeck_orchestrator::{
    ExecuteOptions, ExecutionFacade, ExecutorCall, ExecutorFailure, ExecutorOutput, FALLBACK_BLOCKED,
    FacadeError, FacadeSettings, SkillsRuntime, TelemetryRecord, TelemetrySink, Verdict,
    api::{BackendError, BackendEvent, CallDetails, CallRefusal, SideEffects, ToolCall, ToolResult},
    model::{AfterSideEffects, ExecutorKind, JsonMap, RoutingDecision},
};
use holodeck_testkit::ScriptedTurn;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::bench::{Bench, Kept, ScriptedLegacy, ScriptedSkill, context};

fn failing() -> Bench {
    Bench::new(|_| ScriptedTurn::failing(BackendError::init("down")))
}

/// Fails after a call of `Edit`.
fn failing_after_edit() -> Bench {
    Bench::new(|_| {
        ScriptedTurn::nothing()
            .and_called("Edit", json!({"file_path": "a.rs"}), "ok")
            .and_fail(BackendError::init("down"))
    })
}

async fn execute(settings: FacadeSettings) -> Result<holodeck_orchestrator::Execution, FacadeError> {
    let facade = ExecutionFacade::new(settings);
    facade
        .execute_explained(&context(), &ExecuteOptions::default())
        .await
}

fn legacy() -> Arc<ScriptedLegacy> {
    ScriptedLegacy::new(ExecutorOutput::text("by legacy"))
}

#[tokio::test]
async fn a_skill_takes_over() {
    let mut settings = failing().facade();
    settings.skills = Some(Arc::new(ScriptedSkill(Ok("by skill"))));
    let legacy = legacy();
    settings.legacy = Some(Arc::clone(&legacy) as _);
    let execution = execute(settings).await.unwrap();
    assert!(execution.result.success);
    assert_eq!(execution.result.output["output"], "by skill");
    assert_eq!(execution.result.output["execution_mode"], "skills");
    assert_eq!(execution.mode, Some(ExecutorKind::Skills));
    let attempt = execution.attempt.unwrap().attempt;
    assert_eq!(attempt.routing_decision, RoutingDecision::SdkException);
    assert_eq!(legacy.count(), 0);
}

#[tokio::test]
async fn a_skill_that_fails_ends_the_command_unless_the_yaml_says_otherwise() {
    for (fallback_on_error, calls) in [(false, 0), (true, 1)] {
        let mut settings = failing().facade();
        settings.skills = Some(Arc::new(ScriptedSkill(Err(ExecutorFailure::failed("broken")))));
        let legacy = legacy();
        settings.legacy = Some(Arc::clone(&legacy) as _);
        settings.fallback_on_error = fallback_on_error;
        let execution = execute(settings).await.unwrap();
        assert_eq!(execution.result.success, fallback_on_error);
        assert_eq!(legacy.count(), calls);
        if !fallback_on_error {
            assert_eq!(execution.result.status, "error");
            assert_eq!(execution.result.errors, ["broken"]);
            assert_eq!(execution.result.output["execution_mode"], "skills");
        }
    }
}

#[tokio::test]
async fn a_skill_that_may_have_changed_something_is_not_repeated() {
    let mut settings = failing().facade();
    settings.skills = Some(Arc::new(ScriptedSkill(Err(ExecutorFailure {
        has_side_effects: true,
        ..ExecutorFailure::failed("broken")
    }))));
    let legacy = legacy();
    settings.legacy = Some(Arc::clone(&legacy) as _);
    settings.fallback_on_error = true;
    let execution = execute(settings).await.unwrap();
    assert!(!execution.result.success);
    assert_eq!(legacy.count(), 0);
}

/// Calls a tool that may change something, or one that does not, and fails.
struct CallingSkill {
    side_effects: SideEffects,
    refused: Option<CallRefusal>,
}

#[async_trait]
impl SkillsRuntime for CallingSkill {
    fn find(&self, _: &str) -> Option<String> {
        Some("deploy".to_owned())
    }

    async fn execute(&self, _: &str, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        let tool_call = ToolCall {
            name: "skill__deploy".to_owned(),
            arguments: json!({}),
            call_id: "c9".to_owned(),
            provider_fields: None,
        };
        call.observe(&BackendEvent::ToolCall(tool_call.clone()));
        call.observe(&BackendEvent::ToolResult(ToolResult {
            call_id: tool_call.call_id,
            name: tool_call.name,
            result: "broken".to_owned(),
            is_error: true,
            duration_ms: None,
            details: CallDetails {
                side_effects: Some(self.side_effects),
                refused: self.refused,
                ..CallDetails::default()
            },
        }));
        Err(ExecutorFailure::failed("broken"))
    }
}

#[tokio::test]
async fn the_calls_of_a_failed_skill_decide_whether_another_executor_may_follow() {
    for (side_effects, refused, policy, calls, changed) in [
        (SideEffects::Possible, None, AfterSideEffects::Block, 0, true),
        (SideEffects::Possible, None, AfterSideEffects::Allow, 1, true),
        (SideEffects::None, None, AfterSideEffects::Block, 1, false),
        (
            SideEffects::Possible,
            Some(CallRefusal::Rejected),
            AfterSideEffects::Block,
            1,
            false,
        ),
    ] {
        let mut settings = failing().facade();
        settings.skills = Some(Arc::new(CallingSkill {
            side_effects,
            refused,
        }));
        let legacy = legacy();
        settings.legacy = Some(Arc::clone(&legacy) as _);
        settings.fallback_on_error = true;
        settings.after_side_effects = policy;
        let execution = execute(settings).await.unwrap();
        assert_eq!(legacy.count(), calls);
        let [failed] = execution.failed.as_slice() else {
            panic!("{:?}", execution.failed)
        };
        let expected = Vec::from_iter(changed.then(|| "skill__deploy".to_owned()));
        assert_eq!(
            (failed.reason.as_str(), &failed.side_effects),
            ("broken", &expected)
        );
        if calls == 0 {
            assert_eq!(execution.verdict, Verdict::Blocked);
            assert!(execution.result.errors[0].contains("`skill__deploy`"));
            assert_eq!(execution.result.errors[1], "broken");
            let seen = &execution.result.output["evidence"]["tool_invocations"][0];
            assert_eq!(seen["name"], "skill__deploy");
        } else {
            assert_eq!(execution.verdict, Verdict::Done);
            let ran = refused.is_none().then(|| "skill__deploy".to_owned());
            assert_eq!(execution.result.executed_operations, Vec::from_iter(ran));
        }
    }
}

#[tokio::test]
async fn success_status_and_errors_follow_from_how_it_ended() {
    for (path, settings, _) in paths() {
        let Ok(execution) = execute(settings).await else {
            continue;
        };
        let (result, success) = (&execution.result, execution.verdict == Verdict::Done);
        assert_eq!(result.success, success, "{path}");
        assert_eq!(result.status, if success { "ok" } else { "error" }, "{path}");
        assert_eq!(result.errors.is_empty(), success, "{path}: {:?}", result.errors);
    }
}

#[tokio::test]
async fn legacy_answers_and_its_mode_is_stamped_only_if_absent() {
    let mut own = JsonMap::new();
    own.insert("execution_mode".to_owned(), json!("mine"));
    for (output, mode) in [
        (ExecutorOutput::text("by legacy"), "legacy"),
        (
            ExecutorOutput {
                output: own,
                ..ExecutorOutput::default()
            },
            "mine",
        ),
    ] {
        let mut settings = failing().facade();
        let legacy = ScriptedLegacy::new(output);
        settings.legacy = Some(Arc::clone(&legacy) as _);
        let execution = execute(settings).await.unwrap();
        assert!(execution.result.success);
        assert_eq!(execution.result.output["execution_mode"], mode);
        assert_eq!(legacy.count(), 1);
    }
}

#[tokio::test]
async fn nothing_left_names_what_is_missing() {
    let error = execute(failing().facade()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing executes the command `review`: sdk: sdk_exception: down; not configured: `routing.skills`, \
         `routing.legacy`"
    );
    let FacadeError::NoExecutor {
        reasons,
        missing,
        attempt,
        ..
    } = error
    else {
        panic!()
    };
    assert_eq!(reasons, ["sdk: sdk_exception: down"]);
    assert_eq!(missing, ["`routing.skills`", "`routing.legacy`"]);
    assert_eq!(
        attempt.unwrap().attempt.routing_decision,
        RoutingDecision::SdkException
    );
    let mut settings = failing().facade();
    settings.chain = vec![ExecutorKind::Sdk, ExecutorKind::Skills];
    settings.legacy = Some(legacy());
    let FacadeError::NoExecutor { missing, .. } = execute(settings).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(missing, ["`routing.skills`", "`legacy` in `routing.chain`"]);
}

#[tokio::test]
async fn a_failed_attempt_with_side_effects_is_not_repeated() {
    for (policy, calls) in [(AfterSideEffects::Block, 0), (AfterSideEffects::Allow, 1)] {
        let mut settings = failing_after_edit().facade();
        let legacy = legacy();
        settings.legacy = Some(Arc::clone(&legacy) as _);
        settings.after_side_effects = policy;
        let execution = execute(settings).await.unwrap();
        assert_eq!(legacy.count(), calls);
        assert_eq!(execution.result.success, policy == AfterSideEffects::Allow);
        if policy == AfterSideEffects::Block {
            assert_eq!(execution.verdict, Verdict::Blocked);
            assert_eq!(execution.result.output["error"], FALLBACK_BLOCKED);
            assert_eq!(
                execution.result.output["evidence"]["files_edited"],
                json!(["a.rs"])
            );
            assert_eq!(execution.result.applied_changes, ["a.rs"]);
        }
    }
}

#[tokio::test]
async fn only_calls_that_may_change_something_block() {
    let mut bench = Bench::new(|_| {
        ScriptedTurn::nothing()
            .and_called("Read", json!({"file_path": "a.rs"}), "ok")
            .and_fail(BackendError::init("down"))
    });
    let class = &mut bench.specialists.tools.side_effects;
    class.insert("Read".to_owned(), SideEffects::None);
    let mut settings = bench.facade();
    let legacy = legacy();
    settings.legacy = Some(Arc::clone(&legacy) as _);
    assert!(execute(settings).await.unwrap().result.success);
    assert_eq!(legacy.count(), 1);
    // A call without an answer may have done its work.
    let bench = Bench::new(|_| {
        let call = holodeck_orchestrator::api::ToolCall {
            name: "deploy".to_owned(),
            arguments: json!({}),
            call_id: "c1".to_owned(),
            provider_fields: None,
        };
        ScriptedTurn::nothing()
            .and_event(holodeck_orchestrator::api::BackendEvent::ToolCall(call))
            .and_fail(BackendError::init("down"))
    });
    let mut settings = bench.facade();
    settings.legacy = Some(legacy);
    assert_eq!(execute(settings).await.unwrap().verdict, Verdict::Blocked);
}

fn paths() -> Vec<(&'static str, FacadeSettings, &'static [&'static str])> {
    const ALL: &[&str] = &["execution.routed", "execution.sdk_routed", "execution.completed"];
    const WITHOUT: &[&str] = &["execution.routed", "execution.completed"];
    let with_legacy = |mut settings: FacadeSettings| {
        settings.legacy = Some(legacy());
        settings
    };
    let mut skill = failing().facade();
    skill.skills = Some(Arc::new(ScriptedSkill(Ok("x"))));
    let mut failed_skill = failing().facade();
    failed_skill.skills = Some(Arc::new(ScriptedSkill(Err(ExecutorFailure::broken("x")))));
    let mut off = Bench::answering("x");
    off.settings.enabled = false;
    let mut without_sdk = with_legacy(Bench::answering("x").facade());
    without_sdk.chain = vec![ExecutorKind::Legacy];
    let mut panicking = Bench::answering("x");
    panicking.settings.task = Arc::new(|_| panic!("broken"));
    vec![
        ("success", Bench::answering("x").facade(), ALL),
        ("legacy", with_legacy(failing().facade()), ALL),
        ("skill", skill, ALL),
        ("failed skill", failed_skill, ALL),
        ("blocked", with_legacy(failing_after_edit().facade()), ALL),
        ("nothing left", failing().facade(), ALL),
        ("off", with_legacy(off.facade()), ALL),
        ("panic", with_legacy(panicking.facade()), ALL),
        ("no sdk", without_sdk, WITHOUT),
    ]
}

#[tokio::test]
async fn every_path_has_its_events_once_and_in_order() {
    for (path, mut settings, expected) in paths() {
        let kept = Arc::new(Kept::default());
        settings.telemetry = vec![Arc::clone(&kept) as _];
        let outcome = execute(settings).await;
        assert_eq!(kept.names(), expected, "{path}");
        let records = kept.0.lock().unwrap();
        for record in records.iter() {
            assert_eq!(record.session_id, "session-1");
            assert_eq!(record.payload["session_id"], "session-1");
            assert_eq!(record.payload["command"], "review");
        }
        let success = outcome.is_ok_and(|execution| execution.result.success);
        let last = records.last().unwrap();
        assert_eq!(last.payload["success"], success, "{path}");
        assert_eq!(last.payload.contains_key("error"), !success, "{path}");
    }
}

#[tokio::test]
async fn a_dropped_execution_is_completed_too() {
    let kept = Arc::new(Kept::default());
    let bench = Bench::new(|_| ScriptedTurn::hanging());
    let mut settings = bench.facade();
    settings.telemetry = vec![Arc::clone(&kept) as _];
    let facade = ExecutionFacade::new(settings);
    let (context, options) = (context(), ExecuteOptions::default());
    let running = facade.execute(&context, &options);
    let started = async {
        while bench.turns() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = running => panic!("it hangs"),
        () = started => {}
    }
    assert_eq!(kept.names(), ["execution.routed", "execution.completed"]);
    assert_eq!(kept.0.lock().unwrap()[1].payload["error"], "cancelled");
}

struct Failing;

impl TelemetrySink for Failing {
    fn record(&self, _record: &TelemetryRecord) -> io::Result<()> {
        Err(io::Error::other("disk full"))
    }
}

struct PanickingSink;

impl TelemetrySink for PanickingSink {
    fn record(&self, _record: &TelemetryRecord) -> io::Result<()> {
        panic!("broken");
    }

    fn flush(&self) -> io::Result<()> {
        panic!("broken");
    }
}

#[tokio::test]
async fn a_sink_that_fails_changes_nothing() {
    let plain: Vec<_> = paths().into_iter().map(|(_, settings, _)| settings).collect();
    for ((path, mut settings, _), plain) in paths().into_iter().zip(plain) {
        settings.telemetry = vec![Arc::new(Failing), Arc::new(PanickingSink)];
        let (one, other) = (execute(plain).await, execute(settings).await);
        match (one, other) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one.verdict, other.verdict, "{path}");
                assert_eq!(one.result.success, other.result.success, "{path}");
                assert_eq!(one.result.errors, other.result.errors, "{path}");
                if one.verdict != Verdict::Blocked {
                    assert_eq!(one.result.output, other.result.output, "{path}");
                }
            }
            (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
            different => panic!("{path}: {different:?}"),
        }
    }
}

#[tokio::test]
async fn the_result_shows_nothing_of_the_routing() {
    fn keys(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    found.push(key.clone());
                    keys(value, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }
    for (path, settings, _) in paths() {
        let Ok(execution) = execute(settings).await else {
            continue;
        };
        let mut found = Vec::new();
        keys(&serde_json::to_value(&execution.result).unwrap(), &mut found);
        for key in [
            "routing_decision",
            "confidence",
            "fallback_reason",
            "should_fallback",
            "agent_used",
            "termination_reason",
            "iteration_count",
        ] {
            assert!(!found.iter().any(|other| other == key), "{path}: {key}");
        }
    }
}
