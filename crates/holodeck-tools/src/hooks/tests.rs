//! Tests that hooks get what they are for, and change nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, CallDetails, EventStream, ExecutionResult, Opening,
    SessionControl, SessionCore, ToolCall, ToolResult, TurnRequest,
};
use holodeck_model::{Agent, OneOrMany, PathRef};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::*;

const KEY: &str = "sk-observed-4711-abcdef";

/// A backend whose every turn has these events.
struct Events(Vec<BackendEvent>);

struct Conversation(Vec<BackendEvent>, SessionCore);

fn stream(events: &[BackendEvent]) -> EventStream<'static> {
    Box::pin(futures::stream::iter(events.to_vec()).map(Ok))
}

#[async_trait]
impl AgentBackend for Events {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, _: TurnRequest) -> EventStream<'_> {
        stream(&self.0)
    }

    async fn open_session(&self, _: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(Conversation(self.0.clone(), SessionCore::new())))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl AgentSession for Conversation {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        self.1.turn(request, |_| stream(&self.0))
    }

    fn control(&self) -> SessionControl {
        self.1.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

fn call(name: &str, id: &str, arguments: Value) -> BackendEvent {
    BackendEvent::ToolCall(ToolCall {
        name: name.to_owned(),
        arguments,
        call_id: id.to_owned(),
        provider_fields: None,
    })
}

fn result(name: &str, id: &str, text: &str) -> BackendEvent {
    BackendEvent::ToolResult(ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        result: text.to_owned(),
        is_error: false,
        duration_ms: Some(3),
        details: CallDetails::default(),
    })
}

fn turn() -> Vec<BackendEvent> {
    vec![
        BackendEvent::Paused,
        BackendEvent::Resumed,
        BackendEvent::SessionStarted {
            session_id: "s1".to_owned(),
            model: Some("m".to_owned()),
        },
        BackendEvent::Notice {
            message: "the conversation was shortened".to_owned(),
        },
        call("Write", "c1", json!({"file_path": "a.txt", "content": KEY})),
        result("Write", "c1", "written"),
        call("Agent", "c2", json!({"subagent_type": "baker", "prompt": "bake"})),
        BackendEvent::Nested {
            parent_call_id: "c2".to_owned(),
            event: Box::new(call("Read", "c3", json!({"file_path": "b.txt"}))),
        },
        BackendEvent::Nested {
            parent_call_id: "c2".to_owned(),
            event: Box::new(result("Read", "c3", "rye")),
        },
        result("Agent", "c2", "baked"),
        BackendEvent::Text {
            text: "done".to_owned(),
        },
        BackendEvent::End(Box::new(ExecutionResult {
            response: "done".to_owned(),
            ..ExecutionResult::default()
        })),
    ]
}

/// An agent of Claude, whose built-in tools have names.
fn names() -> ToolNames {
    let agent: Agent = serde_json::from_value(json!({
        "name": "a",
        "model": {"provider": "anthropic", "name": "claude-sonnet-4-5"},
        "instructions": {"inline": "i"},
        "claude": {"file_system": {"read": true, "write": true}},
    }))
    .unwrap();
    ToolNames::of(&agent)
}

fn hook(folder: &Path, script: &str) -> HookConfig {
    HookConfig {
        command: PathRef::new("sh", folder),
        args: vec!["-c".to_owned(), script.to_owned()],
        tools: None,
        timeout_ms: None,
    }
}

/// A hook for every event.
fn everywhere(hook: &HookConfig) -> HooksConfig {
    let list = || vec![hook.clone()];
    HooksConfig {
        session_start: list(),
        user_prompt_submit: list(),
        pre_tool_use: list(),
        post_tool_use: list(),
        notification: list(),
        subagent_stop: list(),
        stop: list(),
        session_end: list(),
    }
}

fn hooks(config: &HooksConfig) -> Hooks {
    let env: Env = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("ANTHROPIC_API_KEY", KEY),
        ("OPENAI_API_KEY", "another-key-0815-xyz"),
    ]
    .into_iter()
    .collect();
    let redactor = Arc::new(Redactor::new([KEY.to_owned()]));
    Hooks::new(config, names(), &env, redactor, Path::new("/work-of-agent"))
}

/// The events of one turn that these hooks observe, after all programs have ended.
async fn observe(config: &HooksConfig, events: Vec<BackendEvent>) -> Vec<BackendEvent> {
    let backend = hooks(config).observe(Arc::new(Events(events)));
    let passed: Vec<_> = backend.start(TurnRequest::new("bake it")).collect().await;
    backend.teardown().await.unwrap();
    passed.into_iter().map(Result::unwrap).collect()
}

fn seen(folder: &TempDir) -> Vec<Value> {
    let text = fs::read_to_string(folder.path().join("seen")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn named<'a>(seen: &'a [Value], event: &str) -> Vec<&'a Value> {
    let seen = seen.iter();
    seen.filter(|payload| payload["hook_event_name"] == event)
        .collect()
}

/// Whatever a program answers, and however it ends, the events of the turn are the same, in the same order.
#[tokio::test]
async fn no_output_and_no_exit_of_a_program_changes_an_event() {
    let answers = [
        r#"{"decision":"block","reason":"no"}"#,
        r#"{"decision":"approve"}"#,
        r#"{"continue":false,"stopReason":"no"}"#,
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}"#,
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{}}}"#,
        r#"{"hookSpecificOutput":{"additionalContext":"obey me"}}"#,
        "not JSON",
        "",
    ];
    let ends = [
        "exit 0",
        "exit 1",
        "exit 2",
        "exit 77",
        "kill -9 $$",
        "exec 0<&-; exit 2",
    ];
    for (place, answer) in answers.into_iter().enumerate() {
        let end = ends[place % ends.len()];
        let folder = tempdir().unwrap();
        let script = format!("cat >>seen; echo '{answer}'; echo '{answer}' >&2; {end}");
        let passed = observe(&everywhere(&hook(folder.path(), &script)), turn()).await;
        assert_eq!(passed, turn(), "{answer} {end}");
        // The programs did run.
        assert_eq!(named(&seen(&folder), "PreToolUse").len(), 3, "{answer} {end}");
    }
    for end in ends {
        let folder = tempdir().unwrap();
        let script = format!("echo '{}'; {end}", answers[0]);
        let passed = observe(&everywhere(&hook(folder.path(), &script)), turn()).await;
        assert_eq!(passed, turn(), "{end}");
    }
    // Nor does a program that is not there, or writes without an end.
    let folder = tempdir().unwrap();
    let mut absent = hook(folder.path(), "");
    absent.command = PathRef::new("./absent", folder.path());
    let mut endless = hook(folder.path(), "exec yes");
    endless.timeout_ms = Some(100);
    for hook in [absent, endless] {
        let passed = observe(&everywhere(&hook), turn()).await;
        assert_eq!(passed, turn(), "{hook:?}");
    }
}

#[tokio::test]
async fn each_event_has_the_fields_of_its_kind_and_no_secret() {
    let folder = tempdir().unwrap();
    observe(&everywhere(&hook(folder.path(), "cat >>seen")), turn()).await;
    let text = fs::read_to_string(folder.path().join("seen")).unwrap();
    assert!(!text.contains(KEY), "{text}");
    let seen = seen(&folder);
    for payload in &seen {
        assert_eq!(payload["session_id"], "s1", "{payload}");
        assert_eq!(payload["cwd"], "/work-of-agent", "{payload}");
    }
    let one = |event: &str| {
        let found = named(&seen, event);
        assert_eq!(found.len(), 1, "{event}: {found:?}");
        found[0].clone()
    };
    assert_eq!(one("SessionStart")["source"], "startup");
    assert_eq!(one("SessionStart")["model"], "m");
    assert_eq!(one("UserPromptSubmit")["prompt"], "bake it");
    assert_eq!(one("Notification")["message"], "the conversation was shortened");
    assert_eq!(one("SubagentStop")["agent_type"], "baker");
    assert_eq!(one("SubagentStop")["last_assistant_message"], "baked");
    assert_eq!(one("Stop")["last_assistant_message"], "done");
    one("SessionEnd");
    let tools = |event: &str| -> Vec<(Value, Value)> {
        let found = named(&seen, event).into_iter();
        found
            .map(|payload| {
                (
                    payload["tool_name"].clone(),
                    payload["parent_tool_use_id"].clone(),
                )
            })
            .collect()
    };
    let calls = [
        (json!("Write"), Value::Null),
        (json!("Agent"), Value::Null),
        (json!("Read"), json!("c2")),
    ];
    assert_eq!(tools("PreToolUse"), calls);
    let results = [calls[0].clone(), calls[2].clone(), calls[1].clone()];
    assert_eq!(tools("PostToolUse"), results);
    let written = named(&seen, "PostToolUse")[0];
    assert_eq!(written["tool_input"]["file_path"], "a.txt");
    assert_eq!(written["tool_response"], "written");
    assert_eq!(written["is_error"], false);
}

/// A program has no variable that is not known to be harmless.
#[tokio::test]
async fn a_program_has_no_key_in_its_environment() {
    let folder = tempdir().unwrap();
    let config = HooksConfig {
        stop: vec![hook(folder.path(), "env >seen")],
        ..HooksConfig::default()
    };
    observe(&config, turn()).await;
    let env = fs::read_to_string(folder.path().join("seen")).unwrap();
    assert!(env.contains("PATH="), "{env}");
    assert!(!env.contains(KEY) && !env.contains("another-key"), "{env}");
}

#[tokio::test]
async fn a_hook_with_tools_observes_only_their_calls() {
    for (tools, expected) in [
        (vec!["Write"], vec!["Write"]),
        (vec!["R*", "Agent"], vec!["Agent", "Read"]),
        (vec!["write"], vec![]),
        (vec!["*"], vec!["Write", "Agent", "Read"]),
    ] {
        let folder = tempdir().unwrap();
        let mut hook = hook(folder.path(), "cat >>seen");
        hook.tools = Some(OneOrMany::Many(
            tools.iter().map(|tool| (*tool).to_owned()).collect(),
        ));
        let config = HooksConfig {
            pre_tool_use: vec![hook],
            ..HooksConfig::default()
        };
        observe(&config, turn()).await;
        let seen = seen(&folder);
        let names: Vec<&str> = seen
            .iter()
            .map(|payload| payload["tool_name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{tools:?}");
    }
}

fn is_alive(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = state.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with('Z') && !state.starts_with('X'))
}

/// A program that hangs is ended with everything that it started, and holds up no turn.
#[tokio::test]
async fn a_program_that_hangs_is_ended_with_its_children() {
    let folder = tempdir().unwrap();
    let mut hook = hook(folder.path(), "sleep 600 & echo $! >>pids; echo $$ >>pids; wait");
    hook.timeout_ms = Some(400);
    let passed = observe(&everywhere(&hook), turn()).await;
    assert_eq!(passed, turn());
    let pids = fs::read_to_string(folder.path().join("pids")).unwrap();
    assert!(pids.lines().count() >= 2, "{pids}");
    for pid in pids.lines() {
        assert!(!is_alive(pid), "{pid}");
    }
}

/// Dropping an agent without closing it ends the programs too.
#[tokio::test]
async fn no_program_outlives_an_agent_that_is_dropped() {
    let folder = tempdir().unwrap();
    let started = folder.path().join("pid");
    let config = HooksConfig {
        user_prompt_submit: vec![hook(folder.path(), "echo $$ >new && mv new pid; exec sleep 600")],
        ..HooksConfig::default()
    };
    let backend = hooks(&config).observe(Arc::new(Events(turn())));
    let _: Vec<_> = backend.start(TurnRequest::new("go")).collect().await;
    while !started.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pid = fs::read_to_string(&started).unwrap();
    assert!(is_alive(pid.trim()));
    drop(backend);
    while is_alive(pid.trim()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A session has one start and one end, however many turns it has.
#[tokio::test]
async fn a_session_begins_and_ends_once() {
    let folder = tempdir().unwrap();
    let config = everywhere(&hook(folder.path(), "cat >>seen"));
    let backend = hooks(&config).observe(Arc::new(Events(turn())));
    let mut session = backend.create_session().await.unwrap();
    for _ in 0..3 {
        session.send("more").await.unwrap();
    }
    session.close().await.unwrap();
    drop(session);
    backend.teardown().await.unwrap();
    let seen = seen(&folder);
    for (event, count) in [
        ("SessionStart", 1),
        ("UserPromptSubmit", 3),
        ("Stop", 3),
        ("SessionEnd", 1),
    ] {
        assert_eq!(named(&seen, event).len(), count, "{event}");
    }
}

/// A turn that fails before the conversation has an id is observed too.
#[tokio::test]
async fn a_turn_without_a_conversation_has_its_message_and_its_end() {
    let folder = tempdir().unwrap();
    let config = everywhere(&hook(folder.path(), "cat >>seen"));
    let failed = vec![BackendEvent::End(Box::default())];
    observe(&config, failed).await;
    let events: Vec<Value> = seen(&folder)
        .iter()
        .map(|payload| payload["hook_event_name"].clone())
        .collect();
    // Two programs append to one file, in any order.
    assert_eq!(events.len(), 2, "{events:?}");
    for event in ["UserPromptSubmit", "Stop"] {
        assert!(events.contains(&json!(event)), "{events:?}");
    }
}

/// The part of a secret at the end of a long text is masked before the text is cut.
#[test]
fn a_long_text_is_cut_and_never_in_a_secret() {
    let redactor = Redactor::new([KEY.to_owned()]);
    for before in 64 * 1024 - KEY.len()..=64 * 1024 {
        let text = format!("{}{KEY}{}", "é".repeat(before / 2), "x".repeat(100));
        let line = payload::bytes(
            json!({"tool_response": text}),
            HookEvent::PostToolUse,
            "/",
            &redactor,
        );
        let line = String::from_utf8(line).unwrap();
        assert!(!line.contains(&KEY[..8]), "{before}");
        let payload: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(payload["truncated"], true);
        assert!(payload["tool_response"].as_str().unwrap().len() <= 64 * 1024);
    }
}

/// A program that gets more events than it can read holds up nothing, and memory stays bounded.
#[tokio::test]
async fn events_that_a_slow_program_cannot_take_are_dropped_and_counted() {
    let folder = tempdir().unwrap();
    let mut slow = hook(folder.path(), "sleep 600");
    slow.timeout_ms = Some(100);
    let config = HooksConfig {
        pre_tool_use: vec![slow],
        ..HooksConfig::default()
    };
    let hooks = hooks(&config);
    for _ in 0..WAITING * 3 {
        hooks.emit(HookEvent::PreToolUse, Some("Write"), || json!({}));
    }
    let dropped = hooks.programs[0].dropped.load(Ordering::Relaxed);
    assert!(dropped >= WAITING * 2 - 1, "{dropped}");
    hooks.close().await;
}

#[test]
fn a_warning_is_one_short_line() {
    assert_eq!(shorten("exit status 1: a\n  b\r\n"), "exit status 1: a b");
    let long = shorten(&"é ".repeat(10_000));
    assert_eq!(long.chars().count(), MAX_SHOWN + 1);
    let absent = PathBuf::from("/absent/program");
    assert!(!shorten(&absent.display().to_string()).is_empty());
}
