//! Hooks and evidence.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use holodeck_orchestrator::{
    ExecuteOptions, Execution, ExecutionFacade, Hook, HookEvent, HookPoint, Verdict,
    api::{BackendEvent, CallDetails, ToolCall, ToolResult},
    model::CommandContext,
};
use holodeck_testkit::{Gate, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::bench::{Bench, context};

async fn execute(bench: &Bench, hooks: Vec<Arc<dyn Hook>>, context: &CommandContext) -> Execution {
    let mut settings = bench.facade();
    settings.hooks = hooks;
    let facade = ExecutionFacade::new(settings);
    facade
        .execute_explained(context, &ExecuteOptions::default())
        .await
        .unwrap()
}

fn editing() -> Bench {
    Bench::new(|_| {
        ScriptedTurn::nothing()
            .and_called("Edit", json!({"file_path": "a.rs"}), "ok")
            .and_text("done")
    })
}

struct Panicking;

impl Hook for Panicking {
    fn on_event(&self, _event: &HookEvent) {
        panic!("broken");
    }
}

#[tokio::test]
async fn a_hook_that_panics_changes_nothing() {
    let plain = execute(&editing(), Vec::new(), &context()).await;
    let hooked = execute(&editing(), vec![Arc::new(Panicking)], &context()).await;
    assert_eq!(plain.result.output, hooked.result.output);
    assert_eq!(plain.verdict, hooked.verdict);
    // The session's start and end, the call and its answer.
    assert_eq!((hooked.hooks.panicked, hooked.hooks.delivered), (4, 0));
}

/// Blocks until the test ends.
struct Slow(Mutex<std::sync::mpsc::Receiver<()>>);

impl Hook for Slow {
    fn on_event(&self, _event: &HookEvent) {
        let _ = self.0.lock().unwrap().recv_timeout(Duration::from_secs(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_hook_does_not_hold_up_the_run_beyond_the_flush() {
    let (release, blocked) = std::sync::mpsc::channel();
    let started = tokio::time::Instant::now();
    let execution = execute(&editing(), vec![Arc::new(Slow(Mutex::new(blocked)))], &context()).await;
    // The clock is stopped: only the limit of the flush passes.
    assert!(started.elapsed() <= holodeck_orchestrator::FLUSH_LIMIT + Duration::from_millis(1));
    assert!(execution.result.success && execution.hooks.unfinished);
    drop(release);
}

struct Named(&'static str, Arc<Mutex<Vec<String>>>);

impl Hook for Named {
    fn on_event(&self, event: &HookEvent) {
        let point = serde_json::to_value(&event.point).unwrap()["point"].clone();
        let entry = format!("{} {}", self.0, point.as_str().unwrap());
        self.1.lock().unwrap().push(entry);
    }
}

#[tokio::test]
async fn hooks_are_called_in_the_order_of_their_registration() {
    let order = Arc::default();
    let hooks = ["a", "b", "c"].map(|name| Arc::new(Named(name, Arc::clone(&order))) as Arc<dyn Hook>);
    execute(&editing(), hooks.to_vec(), &context()).await;
    let points = ["session_start", "pre_tool_use", "post_tool_use", "session_end"];
    let expected: Vec<String> = points
        .iter()
        .flat_map(|point| ["a", "b", "c"].map(|name| format!("{name} {point}")))
        .collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> BackendEvent {
    BackendEvent::ToolCall(ToolCall {
        name: name.to_owned(),
        arguments,
        call_id: id.to_owned(),
        provider_fields: None,
    })
}

fn result(id: &str, name: &str, text: &str, duration: u64) -> BackendEvent {
    BackendEvent::ToolResult(ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        result: text.to_owned(),
        is_error: false,
        duration_ms: Some(duration),
        details: CallDetails::default(),
    })
}

fn scripted(events: Vec<BackendEvent>) -> Bench {
    Bench::new(move |_| {
        let turn = ScriptedTurn::text("done");
        events.clone().into_iter().fold(turn, ScriptedTurn::and_event)
    })
}

#[tokio::test]
async fn an_event_that_is_delivered_twice_counts_once() {
    let edit = || call("c1", "Edit", json!({"file_path": "a.rs"}));
    let done = || result("c1", "Edit", "ok", 5);
    let bench = scripted(vec![edit(), edit(), done(), done()]);
    let evidence = execute(&bench, Vec::new(), &context()).await.evidence;
    assert_eq!(evidence.tool_invocations.len(), 1);
    assert_eq!(evidence.files_edited, ["a.rs"]);
}

#[tokio::test]
async fn parallel_tools_are_kept_apart() {
    let bench = scripted(vec![
        call("c1", "Read", json!({"file_path": "1"})),
        call("c2", "Read", json!({"file_path": "2"})),
        call("c3", "Bash", json!({"command": "ls"})),
        result("c3", "Bash", "", 30),
        result("c1", "Read", "", 10),
        result("c2", "Read", "", 20),
    ]);
    let evidence = execute(&bench, Vec::new(), &context()).await.evidence;
    let calls = evidence.tool_invocations.iter();
    let calls: Vec<_> = calls
        .map(|call| (call.id.as_str(), call.name.as_str(), call.duration_ms.unwrap()))
        .collect();
    assert_eq!(
        calls,
        [("c1", "Read", 10), ("c2", "Read", 20), ("c3", "Bash", 30)]
    );
    assert_eq!(evidence.files_read, ["1", "2"]);
    let summary = evidence.summary();
    assert_eq!(summary["tool_count"], 3);
    assert_eq!(summary["commands_run"], 1);
    assert_eq!(summary["has_execution_evidence"], true);
}

#[tokio::test]
async fn test_runs_add_up() {
    let bash = |id, command: &str| call(id, "Bash", json!({"command": command}));
    let bench = scripted(vec![
        bash("c1", "cargo test -p a"),
        result(
            "c1",
            "Bash",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored",
            1,
        ),
        bash("c2", "cargo test -p b"),
        result("c2", "Bash", "test result: ok. 5 passed; 0 failed; 0 ignored", 1),
        // Not a test run, whatever it prints.
        bash("c3", "cat log"),
        result(
            "c3",
            "Bash",
            "test result: ok. 9 passed; 9 failed; 0 ignored\n75%",
            1,
        ),
    ]);
    let evidence = execute(&bench, Vec::new(), &context()).await.evidence;
    let tests = evidence.tests;
    assert_eq!(
        (tests.run, tests.passed, tests.failed, tests.coverage),
        (2, 8, 1, None)
    );
}

#[tokio::test]
async fn missing_evidence_is_an_issue_only_if_it_is_required() {
    let reading = || {
        scripted(vec![
            call("c1", "Read", json!({"file_path": "1"})),
            result("c1", "Read", "", 1),
        ])
    };
    let execution = execute(&reading(), Vec::new(), &context()).await;
    assert_eq!(
        (execution.verdict, execution.result.errors.len()),
        (Verdict::Done, 0)
    );
    let requires = CommandContext {
        requires_evidence: true,
        ..context()
    };
    let execution = execute(&reading(), Vec::new(), &requires).await;
    assert_eq!(execution.verdict, Verdict::MissingEvidence);
    assert!(!execution.result.success);
    assert!(execution.result.errors[0].starts_with("NO_EXECUTION_EVIDENCE"));
    // The answer is kept.
    assert_eq!(execution.result.output["output"], "done");
    let mut strict = reading();
    strict.settings.evidence.min_file_changes = 2;
    strict.settings.evidence.require_tests = true;
    let execution = execute(&strict, Vec::new(), &context()).await;
    let codes: Vec<_> = execution
        .result
        .errors
        .iter()
        .map(|error| error.split(':').next().unwrap())
        .collect();
    assert_eq!(codes, ["MISSING_FILE_CHANGES", "NO_TESTS_RUN"]);
    // What is only expected is reported in the attempt and fails nothing.
    let expects = CommandContext {
        expects_file_changes: true,
        expects_tests: true,
        expects_execution_evidence: true,
        ..context()
    };
    let execution = execute(&reading(), Vec::new(), &expects).await;
    assert_eq!(execution.verdict, Verdict::Done);
    let evidence = execution.attempt.unwrap().attempt.evidence.unwrap();
    assert_eq!(evidence["issues"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn hooks_see_nested_agents_begin_and_end() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let nested = BackendEvent::Nested {
        parent_call_id: "c1".to_owned(),
        event: Box::new(call("n1", "Read", json!({}))),
    };
    let bench = scripted(vec![
        call("c1", "Agent", json!({})),
        nested,
        BackendEvent::Nested {
            parent_call_id: "c1".to_owned(),
            event: Box::new(result("n1", "Read", "", 1)),
        },
        result("c1", "Agent", "", 1),
    ]);
    let hook = Arc::new(Named("h", Arc::clone(&seen)));
    let execution = execute(&bench, vec![hook], &context()).await;
    let seen: Vec<_> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|entry| entry.trim_start_matches("h ").to_owned())
        .collect();
    assert_eq!(
        seen,
        [
            "session_start",
            "pre_tool_use",
            "subagent_start",
            "pre_tool_use",
            "post_tool_use",
            "post_tool_use",
            "subagent_stop",
            "session_end"
        ]
    );
    assert_eq!(execution.evidence.subagents, ["c1"]);
}

/// A hook gets everything while the run goes on.
#[tokio::test]
async fn hooks_run_while_the_agent_does() {
    struct Opens(Gate);
    impl Hook for Opens {
        fn on_event(&self, event: &HookEvent) {
            if matches!(event.point, HookPoint::PreToolUse { .. }) {
                self.0.open();
            }
        }
    }
    let gate = Gate::new();
    let waits = gate.clone();
    let bench = Bench::new(move |_| {
        ScriptedTurn::nothing()
            .and_called("Read", json!({}), "ok")
            .and_wait_for(&waits)
            .and_text("done")
    });
    let execution = execute(&bench, vec![Arc::new(Opens(gate))], &context()).await;
    assert!(execution.result.success);
}
