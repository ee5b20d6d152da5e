//! Tests that a conversation continues from its log, across processes, failures and stopped answers.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_chat::{
    AgentRunService, RunError, RunRequest, ServiceOptions,
    api::{
        AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, HistoryItem, Opening,
        ResultFold, SessionControl, StopReason, TurnRequest, collect,
    },
    events::{
        EventStore, MemoryStore, SqliteOptions, SqliteStore, StoreError, StoredEvent, execution_result,
    },
    model::Redactor,
};
use holodeck_testkit::{Asked, Gate, ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::World;

fn echo(asked: &Asked) -> ScriptedTurn {
    ScriptedTurn::text(&format!("re: {}", asked.message))
}

#[tokio::test]
async fn a_conversation_is_remembered() {
    let world = World::new(echo);
    assert_eq!(world.say("one").await, "re: one");
    assert_eq!(world.say("two").await, "re: two");
    assert_eq!(world.history(), ["user: one", "agent: re: one"]);
    let kinds = world.kinds().await;
    assert_eq!(
        kinds,
        [
            "session_start",
            "user_message_confirmed",
            "message",
            "complete",
            "user_message_confirmed",
            "message",
            "complete"
        ]
    );
}

#[tokio::test]
async fn a_conversation_is_reopened_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.db");
    for (message, history) in [("one", 0), ("two", 2), ("three", 4)] {
        let store = SqliteStore::open(&path, SqliteOptions::default()).await.unwrap();
        let world = World::with(Arc::new(store), ServiceOptions::default(), echo);
        world.say(message).await;
        assert_eq!(world.history().len(), history);
        world.service.close().await;
    }
}

/// The open session of the backend does not know what another process added.
#[tokio::test]
async fn another_process_may_continue_a_conversation() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let here = World::with(Arc::clone(&store), ServiceOptions::default(), echo);
    let there = World::with(store, ServiceOptions::default(), echo);
    here.say("one").await;
    there.say("two").await;
    here.say("three").await;
    let expected = ["user: one", "agent: re: one", "user: two", "agent: re: two"];
    assert_eq!(here.history(), expected);
}

#[tokio::test]
async fn a_failed_message_is_not_part_of_what_follows() {
    let world = World::new(|asked| match asked.message.as_str() {
        "fail" => ScriptedTurn::failing(BackendError::session("no".to_owned())),
        _ => echo(asked),
    });
    world.say("one").await;
    let failed = world.service.run_graph(RunRequest::new("s", "fail"), None).await;
    let Err(RunError::Execution(result)) = failed else {
        panic!("{failed:?}")
    };
    assert!(!result.success && result.error.is_some());
    world.say("two").await;
    assert_eq!(world.history(), ["user: one", "agent: re: one"]);
    assert_eq!(world.kinds().await[4..6], ["user_message_confirmed", "error"]);
}

/// E-41 without the real CLI: a process that ends is an error of its run, and the next message works.
#[tokio::test]
async fn after_a_process_ended_the_next_message_works() {
    let world = World::new(|asked| match asked.index {
        0 => ScriptedTurn::nothing()
            .and_text("half")
            .and_fail(BackendError::Terminated {
                detail: "exit code 9".to_owned(),
            }),
        _ => echo(asked),
    });
    let failed = world.service.run_graph(RunRequest::new("s", "one"), None).await;
    assert!(matches!(failed, Err(RunError::Execution(result)) if result.response == "half"));
    let error = world.wait_for("error").await;
    assert!(error.json().contains("SUBPROCESS_TERMINATED"), "{}", error.json());
    assert_eq!(world.say("two").await, "re: two");
}

#[tokio::test]
async fn a_stopped_answer_keeps_its_text_and_the_model_sees_it() {
    let gate = Gate::new();
    let script_gate = gate.clone();
    let world = World::new(move |asked| match asked.index {
        0 => ScriptedTurn::nothing()
            .and_text("half an answer")
            .and_wait_for(&script_gate),
        _ => echo(asked),
    });
    let mut run = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    world.wait_for("message_chunk").await;
    run.cancel();
    let Err(RunError::Execution(result)) = run.finish().await else {
        panic!("it was stopped")
    };
    assert_eq!(
        (result.response.as_str(), result.success),
        ("half an answer", false)
    );
    let kinds = world.kinds().await;
    assert_eq!(
        kinds,
        ["session_start", "user_message_confirmed", "message", "complete"]
    );
    assert!(world.wait_for("complete").await.json().contains("user_cancelled"));
    world.say("two").await;
    assert_eq!(world.history(), ["user: one", "stopped: half an answer"]);
}

#[tokio::test]
async fn stopping_a_run_that_is_over_changes_nothing() {
    let world = World::new(echo);
    let mut run = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    let result = run.finish().await.unwrap();
    let before = world.events().await;
    for _ in 0..2 {
        run.cancel();
        assert_eq!(run.finish().await.unwrap(), result);
    }
    assert!(world.service.run(run.run_id()).is_none());
    assert_eq!(world.events().await, before);
    assert_eq!(world.say("two").await, "re: two");
}

/// The user of a request is the one that its transport knows; a session of another user does not exist for it.
#[tokio::test]
async fn a_message_in_the_conversation_of_another_user_is_refused() {
    let world = World::new(echo);
    let of = |user: Option<&str>| RunRequest {
        user_id: user.map(str::to_owned),
        ..RunRequest::new("s", "one")
    };
    world.service.run_graph(of(Some("alice")), None).await.unwrap();
    let before = world.events().await;
    for user in [Some("mallory"), None] {
        let refused = world.service.run_graph(of(user), None).await;
        assert!(
            matches!(refused, Err(RunError::Store(StoreError::SessionNotFound { .. }))),
            "{refused:?}"
        );
    }
    assert_eq!(world.events().await, before);
    assert_eq!(world.questions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_does_not_stop_is_dropped() {
    let world = World::new(|_| ScriptedTurn::nothing().and_text("half").and_hang());
    let mut run = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    world.wait_for("message_chunk").await;
    run.cancel();
    assert!(matches!(run.finish().await, Err(RunError::Execution(_))));
    assert!(world.wait_for("complete").await.json().contains("user_cancelled"));
}

#[tokio::test]
async fn a_call_that_runs_is_closed_before_the_end() {
    let gate = Gate::new();
    let script_gate = gate.clone();
    let world = World::new(move |_| {
        use holodeck_chat::api::{BackendEvent, StopReason, ToolCall};
        ScriptedTurn::nothing()
            .and_event(BackendEvent::ToolCall(ToolCall {
                name: "slow".to_owned(),
                arguments: json!({}),
                call_id: "call-7".to_owned(),
                provider_fields: None,
            }))
            .and_event(BackendEvent::TurnEnd {
                stop_reason: StopReason::ToolUse,
                message_id: None,
                model: None,
            })
            .and_wait_for(&script_gate)
    });
    let mut run = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    world.wait_for("tool_use").await;
    run.cancel();
    assert!(run.finish().await.is_err());
    let kinds = world.kinds().await;
    assert_eq!(kinds[2..], ["tool_use", "tool_result", "complete"]);
}

/// A live session that remembers every message it got, as a process does that was stopped before it answered.
struct Remembering {
    messages: Vec<String>,
    gate: Gate,
}

struct RememberingBackend(Gate);

#[async_trait]
impl AgentBackend for RememberingBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, _: TurnRequest) -> EventStream<'_> {
        panic!("a conversation has a session")
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let told = opening.history.iter().filter_map(|item| match item {
            HistoryItem::User { text } => Some(text.clone()),
            _ => None,
        });
        Ok(Box::new(Remembering {
            messages: told.collect(),
            gate: self.0.clone(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl AgentSession for Remembering {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        self.messages.push(request.message.clone());
        let (messages, gate) = (self.messages.join(", "), self.gate.clone());
        Box::pin(async_stream::stream! {
            if request.message == "wait" {
                gate.open();
                request.cancel.cancelled().await;
                yield Err(BackendError::Cancelled);
                return;
            }
            let mut fold = ResultFold::new();
            let text = BackendEvent::Text { text: messages };
            fold.observe(&text);
            yield Ok(text);
            yield Ok(BackendEvent::End(Box::new(fold.finish_answered(&StopReason::EndTurn))));
        })
    }

    fn control(&self) -> SessionControl {
        SessionControl::default()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// The log leaves out a message that was stopped before any output, so a live session that knows it is not used again.
#[tokio::test]
async fn after_a_stop_before_any_output_the_log_is_what_counts() {
    let (gate, store) = (Gate::new(), Arc::new(MemoryStore::new()));
    let backend = Arc::new(RememberingBackend(gate.clone()));
    let service = AgentRunService::new(backend, store, ServiceOptions::default());
    let say = async |message: &str| {
        let result = service.run_graph(RunRequest::new("s", message), None).await;
        result.unwrap().response
    };
    assert_eq!(say("one").await, "one");
    let mut run = service.start(RunRequest::new("s", "wait"), None).await.unwrap();
    gate.opened().await;
    run.cancel();
    assert!(run.finish().await.is_err());
    assert_eq!(say("two").await, "one, two");
    service.close().await;
}

/// E-60: without a listener, the run continues.
#[tokio::test]
async fn a_run_goes_on_when_its_handle_is_dropped() {
    let gate = Gate::new();
    let script_gate = gate.clone();
    let world = World::new(move |_| ScriptedTurn::text("late").and_wait_for(&script_gate));
    drop(
        world
            .service
            .start(RunRequest::new("s", "one"), None)
            .await
            .unwrap(),
    );
    gate.open();
    world.service.drain().await;
    assert!(world.wait_for("complete").await.json().contains("\"success\""));
}

#[tokio::test]
async fn the_fold_of_the_stored_events_is_the_result_of_the_turn() {
    let turn = || {
        ScriptedTurn::nothing()
            .and_thinking("hm")
            .and_called("look", json!({"q": "x"}), "found")
            .and_text("It is x.")
            .and_usage(holodeck_chat::api::TokenUsage::new(7, 3))
    };
    let world = World::new(move |_| turn());
    world.say("one").await;
    let events = world.events().await;
    let folded = execution_result(events.iter().map(StoredEvent::event)).unwrap();
    let backend = ScriptedBackend::answering(move |_| turn());
    let mut direct = collect(backend.start(TurnRequest::new("one"))).await.unwrap();
    direct.finish_reason = None;
    assert_eq!(folded, direct);
}

#[tokio::test]
async fn nothing_that_is_stored_or_delivered_has_a_secret() {
    const SECRET: &str = "hunter2-is-long";
    let options = ServiceOptions {
        redactor: Some(Arc::new(Redactor::new([SECRET.to_owned()]))),
        ..ServiceOptions::default()
    };
    let world = World::with(Arc::new(MemoryStore::new()), options, |_| {
        ScriptedTurn::nothing()
            .and_called(
                "log_in",
                json!({"password": SECRET}),
                &format!("welcome {SECRET}"),
            )
            .and_text("It is hun")
            .and_text("ter2-is-long.")
    });
    world.say(&format!("my password is {SECRET}")).await;
    for event in world.events().await {
        assert!(!event.json().contains(SECRET), "{}", event.json());
    }
}

#[tokio::test]
async fn what_is_refused_is_not_stored() {
    let world = World::new(echo);
    for (request, text) in [
        (RunRequest::new("s", "  "), "the message is empty"),
        (RunRequest::new("../s", "one"), "a session id has"),
    ] {
        let refused = world.service.run_graph(request, None).await.unwrap_err();
        assert!(refused.to_string().contains(text), "{refused}");
    }
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
    assert_eq!(world.questions(), 0);
    world.service.close().await;
    let refused = world.service.run_graph(RunRequest::new("s", "one"), None).await;
    assert!(matches!(refused, Err(RunError::Closing)));
}
