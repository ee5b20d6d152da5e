//! Tests of questions to a person during a run: approved, rejected, modified, unanswered, and answered twice.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use holodeck_chat::{
    AgentRunService, CheckArguments, Patience, RunError, RunHandle, RunRequest, ServiceOptions,
    api::ToolCall,
    events::{
        ApprovalAnswer, EventStore, MemoryStore, Resolution, SqliteOptions, SqliteStore, StoreError,
        StoredEvent,
    },
    model::{
        OnApprovalTimeout,
        events::{AgentExecutionResult, ApprovalScope, EventBody, SessionStart},
    },
};
use holodeck_testkit::{ScriptedBackend, ScriptedTools, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// An agent that calls `echo` in each turn, and asks a person before.
struct Asking {
    service: AgentRunService,
    store: Arc<dyn EventStore>,
    tools: Arc<ScriptedTools>,
}

impl Asking {
    fn new(store: Arc<dyn EventStore>, patience: Patience) -> Self {
        Self::with_ids(store, patience, |index| format!("call-{index}"))
    }

    /// With ids of the calls by the number of the turn.
    fn with_ids(store: Arc<dyn EventStore>, patience: Patience, id: fn(usize) -> String) -> Self {
        let options = ServiceOptions {
            patience,
            ..ServiceOptions::default()
        };
        Self::with_options(store, options, id)
    }

    fn with_options(store: Arc<dyn EventStore>, options: ServiceOptions, id: fn(usize) -> String) -> Self {
        let tools = Arc::new(ScriptedTools::default());
        let backend = ScriptedBackend::answering(move |asked| {
            let call = ToolCall {
                name: "echo".to_owned(),
                arguments: json!({"text": asked.message}),
                call_id: id(asked.index),
                provider_fields: None,
            };
            ScriptedTurn::nothing().and_call(vec![call]).and_text("done")
        });
        let backend = Arc::new(backend.with_tools(Arc::clone(&tools) as Arc<_>));
        Self {
            service: AgentRunService::new(backend, Arc::clone(&store), options),
            store,
            tools,
        }
    }

    fn patient() -> Self {
        Self::new(Arc::new(MemoryStore::new()), FOR_EVER)
    }

    async fn start(&self, message: &str) -> RunHandle {
        let request = RunRequest::new("s", message);
        self.service.start(request, None).await.unwrap()
    }

    /// Sends a message, and answers the question about its call.
    async fn run(
        &self,
        message: &str,
        decide: impl FnOnce(&str) -> ApprovalAnswer,
    ) -> Result<AgentExecutionResult, RunError> {
        let mut run = self.service.start(RunRequest::new("s", message), None).await?;
        let id = self.question(run.run_id()).await;
        self.service.answer(decide(&id)).await.unwrap();
        run.finish().await
    }

    /// The id of the question that a run asks.
    async fn question(&self, run_id: &str) -> String {
        loop {
            let pending = self.store.approvals(Some("s"), None).await.unwrap();
            if let Some(asked) = pending.iter().find(|asked| asked.run_id == run_id) {
                return asked.request.approval_id.clone();
            }
            tokio::task::yield_now().await;
        }
    }

    async fn events(&self) -> Vec<StoredEvent> {
        self.store.read_after("s", None).await.unwrap()
    }

    /// The types of the events about calls, with their outcome.
    async fn calls(&self) -> Vec<String> {
        let events = self.events().await;
        let calls = events.iter().filter_map(|event| {
            Some(match &event.event().body {
                EventBody::ToolUse(_) => "called".to_owned(),
                EventBody::ApprovalRequested(_) => "asked".to_owned(),
                EventBody::ApprovalResolved(resolved) => {
                    resolved.decision.as_ref().unwrap().as_str().to_owned()
                }
                EventBody::ToolResult(result) => {
                    format!("{}: {}", result.success, result.result.as_str().unwrap())
                }
                EventBody::Complete(end) => match &end.error {
                    Some(error) => format!("complete: {}: {error}", end.reason.as_str()),
                    None => format!("complete: {}", end.reason.as_str()),
                },
                EventBody::Error(error) => format!("error: {}", error.error),
                _ => return None,
            })
        });
        calls.collect()
    }
}

const FOR_EVER: Patience = Patience {
    limit: None,
    then: OnApprovalTimeout::Reject,
};

fn approve(id: &str) -> ApprovalAnswer {
    ApprovalAnswer::new(id, Resolution::Approve)
}

#[tokio::test]
async fn an_approved_call_runs() {
    let asking = Asking::patient();
    let result = asking.run("hello", approve).await.unwrap();
    assert_eq!(result.response, "done");
    assert_eq!(
        asking.calls().await,
        ["called", "asked", "approved", "true: hello", "complete: success"]
    );
}

#[tokio::test]
async fn a_rejected_call_does_not_run_and_the_model_learns_why() {
    let asking = Asking::patient();
    let reject = |id: &str| {
        let mut answer = ApprovalAnswer::new(id, Resolution::Reject);
        answer.reason = Some("not today".to_owned());
        answer
    };
    assert_eq!(asking.run("hello", reject).await.unwrap().response, "done");
    assert_eq!(
        asking.calls().await,
        [
            "called",
            "asked",
            "rejected",
            "false: not today",
            "complete: success"
        ]
    );
    assert_eq!(asking.tools.called(), []);
}

/// Accepts a `text` only.
struct TextOnly;

impl CheckArguments for TextOnly {
    fn check(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        assert_eq!(tool, "echo");
        let is_text = arguments["text"].is_string();
        if is_text {
            Ok(())
        } else {
            Err("`text` is no text".to_owned())
        }
    }
}

#[tokio::test]
async fn arguments_that_the_tool_does_not_accept_leave_the_question_open() {
    let options = ServiceOptions {
        tools: Some(Arc::new(TextOnly)),
        ..ServiceOptions::default()
    };
    let store = Arc::new(MemoryStore::new());
    let asking = Asking::with_options(store, options, |_| "call-0".to_owned());
    let mut run = asking.start("hello").await;
    let id = asking.question(run.run_id()).await;
    let modify = |text: Value| ApprovalAnswer::new(&id, Resolution::Modify(json!({"text": text})));
    let refused = asking.service.answer(modify(json!(7))).await.unwrap_err();
    assert!(matches!(&refused, RunError::Refused { reason } if reason == "`text` is no text"));
    // A stranger learns nothing about the arguments.
    let foreign = asking
        .service
        .answer(modify(json!(7)).by(Some("eve")))
        .await
        .unwrap_err();
    assert!(
        matches!(foreign, RunError::Store(StoreError::ApprovalNotFound { .. })),
        "{foreign:?}"
    );
    assert_eq!(asking.question(run.run_id()).await, id);
    assert_eq!(asking.tools.called().len(), 0);
    asking.service.answer(modify(json!("other"))).await.unwrap();
    run.finish().await.unwrap();
    assert_eq!(asking.calls().await[2..4], ["modified", "true: other"]);
}

#[tokio::test]
async fn a_modified_call_runs_with_the_new_arguments() {
    let asking = Asking::patient();
    let modify = |id: &str| ApprovalAnswer::new(id, Resolution::Modify(json!({"text": "other"})));
    asking.run("hello", modify).await.unwrap();
    assert_eq!(asking.calls().await[2..4], ["modified", "true: other"]);
    assert_eq!(asking.tools.called()[0].arguments, json!({"text": "other"}));
}

#[tokio::test]
async fn a_person_may_end_the_run() {
    let asking = Asking::patient();
    let terminate = |id: &str| ApprovalAnswer::new(id, Resolution::Terminate);
    let Err(RunError::Execution(result)) = asking.run("hello", terminate).await else {
        panic!("the run was ended")
    };
    assert!(!result.success);
    assert_eq!(asking.tools.called(), []);
    let calls = asking.calls().await;
    assert_eq!(calls[2], "terminated");
    assert!(
        calls
            .last()
            .unwrap()
            .starts_with("complete: error: terminated by approval"),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_expires() {
    for (then, end) in [
        (OnApprovalTimeout::Reject, "complete: success"),
        (
            OnApprovalTimeout::Terminate,
            "complete: error: terminated by approval: no answer within 300 s",
        ),
    ] {
        let limit = Some(Duration::from_mins(5));
        let asking = Asking::new(Arc::new(MemoryStore::new()), Patience { limit, then });
        let _ = asking
            .service
            .run_graph(RunRequest::new("s", "hello"), None)
            .await;
        let calls = asking.calls().await;
        assert_eq!(calls[..3], ["called", "asked", "expired"]);
        assert_eq!(calls.iter().filter(|call| *call == "expired").count(), 1);
        assert_eq!(calls.last().unwrap(), end);
        assert_eq!(asking.tools.called(), []);
    }
}

#[tokio::test]
async fn the_first_answer_counts() {
    let asking = Asking::patient();
    let mut run = asking.start("hello").await;
    let id = asking.question(run.run_id()).await;
    asking
        .service
        .answer(ApprovalAnswer::new(&id, Resolution::Reject))
        .await
        .unwrap();
    let second = asking.service.answer(approve(&id)).await;
    assert!(
        matches!(second, Err(RunError::Store(StoreError::AlreadyResolved { .. }))),
        "{second:?}"
    );
    run.finish().await.unwrap();
    assert_eq!(asking.tools.called(), []);
    let unknown = asking.service.answer(approve("nothing")).await;
    assert!(matches!(
        unknown,
        Err(RunError::Store(StoreError::ApprovalNotFound { .. }))
    ));
}

/// Another user's answer is refused as if there were no question.
#[tokio::test]
async fn a_stranger_cannot_answer() {
    let asking = Asking::patient();
    let request = RunRequest {
        user_id: Some("alice".to_owned()),
        ..RunRequest::new("s", "hello")
    };
    let mut run = asking.service.start(request, None).await.unwrap();
    let id = asking.question(run.run_id()).await;
    for stranger in [Some("mallory"), None] {
        let answer = asking.service.answer(approve(&id).by(stranger)).await;
        assert!(
            matches!(answer, Err(RunError::Store(StoreError::ApprovalNotFound { .. }))),
            "{answer:?}"
        );
    }
    asking
        .service
        .answer(approve(&id).by(Some("alice")))
        .await
        .unwrap();
    run.finish().await.unwrap();
    assert_eq!(asking.tools.called().len(), 1);
}

/// Another process, which has the same file open, answers.
#[tokio::test]
async fn an_answer_may_come_from_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.db");
    let open = || async { SqliteStore::open(&path, SqliteOptions::default()).await.unwrap() };
    let asking = Asking::new(Arc::new(open().await), FOR_EVER);
    let elsewhere = open().await;
    let mut run = asking.start("hello").await;
    let id = asking.question(run.run_id()).await;
    elsewhere.resolve_approval(approve(&id)).await.unwrap();
    assert_eq!(run.finish().await.unwrap().response, "done");
    assert_eq!(
        asking.calls().await,
        ["called", "asked", "approved", "true: hello", "complete: success"]
    );
}

/// The stores of two processes. To the second one, any process seems dead.
async fn two_processes(path: &std::path::Path) -> [SqliteStore; 2] {
    let mut options = SqliteOptions::default();
    options.watches = false;
    options.lease = Duration::ZERO;
    let own = SqliteStore::open(path, SqliteOptions::default()).await.unwrap();
    [own, SqliteStore::open(path, options).await.unwrap()]
}

/// A process that dies between the answers to two questions of one message.
#[tokio::test]
async fn a_process_that_dies_between_two_answers_runs_no_call_and_leaves_no_question() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.db");
    let [own, elsewhere] = two_processes(&path).await;
    let store: Arc<dyn EventStore> = Arc::new(own);
    let tools = Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(|_| {
        let calls = ["one", "two"].map(|word| ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": word}),
            call_id: word.to_owned(),
            provider_fields: None,
        });
        ScriptedTurn::nothing().and_call(calls.to_vec()).and_text("done")
    });
    let backend = Arc::new(backend.with_tools(Arc::clone(&tools) as Arc<_>));
    let asking = Asking {
        service: AgentRunService::new(backend, Arc::clone(&store), ServiceOptions::default()),
        store,
        tools,
    };
    let mut run = asking.start("hello").await;
    let first = asking.question(run.run_id()).await;
    // Both are asked before the first one is answered.
    let asked = asking.store.approvals(Some("s"), None).await.unwrap();
    assert_eq!(asked.len(), 2);
    asking.service.answer(approve(&first)).await.unwrap();
    while elsewhere.recover().await.unwrap().is_empty() {}
    for asked in asked {
        let id = &asked.request.approval_id;
        let late = asking
            .service
            .answer(ApprovalAnswer::new(id, Resolution::Reject))
            .await;
        assert!(late.is_err(), "{late:?}");
    }
    assert!(run.finish().await.is_err());
    assert_eq!(asking.tools.called(), []);
    let mut calls = asking.calls().await;
    // Either call may be the one that was approved.
    calls[5..8].sort();
    assert_eq!(
        calls[..8],
        [
            "called",
            "called",
            "asked",
            "asked",
            "approved",
            "cancelled",
            "false: interrupted",
            "false: interrupted"
        ]
    );
    assert!(calls.len() == 9 && calls[8].starts_with("error: "), "{calls:?}");
}

/// Another process takes this one for dead, and ends its run while a person is asked.
#[tokio::test]
async fn a_tool_does_not_run_after_another_process_ended_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.db");
    let [own, elsewhere] = two_processes(&path).await;
    let asking = Asking::new(Arc::new(own), FOR_EVER);
    let mut run = asking.start("hello").await;
    let id = asking.question(run.run_id()).await;
    while elsewhere.recover().await.unwrap().is_empty() {}
    let late = asking.service.answer(approve(&id)).await;
    assert!(
        matches!(late, Err(RunError::Store(StoreError::AlreadyResolved { .. }))),
        "{late:?}"
    );
    assert!(run.finish().await.is_err());
    assert_eq!(asking.tools.called(), []);
    let calls = asking.calls().await;
    assert_eq!(calls[..3], ["called", "asked", "cancelled"]);
    assert_eq!(calls.len(), 5, "{calls:?}");
}

#[tokio::test]
async fn a_question_is_withdrawn_when_the_run_is_stopped() {
    let asking = Asking::patient();
    let mut run = asking.start("hello").await;
    let id = asking.question(run.run_id()).await;
    run.cancel();
    assert!(run.finish().await.is_err());
    let calls = asking.calls().await;
    assert_eq!(calls[..3], ["called", "asked", "cancelled"]);
    assert!(calls[3].starts_with("false"), "{calls:?}");
    assert_eq!(asking.tools.called(), []);
    let late = asking.service.answer(approve(&id)).await;
    assert!(
        matches!(late, Err(RunError::Store(StoreError::AlreadyResolved { .. }))),
        "{late:?}"
    );
}

#[tokio::test]
async fn a_tool_that_is_approved_for_the_session_is_not_asked_about_again() {
    let asking = Asking::patient();
    let for_session = |id: &str| {
        let mut answer = approve(id);
        answer.scope = ApprovalScope::Session;
        answer
    };
    asking.run("one", for_session).await.unwrap();
    asking
        .service
        .run_graph(RunRequest::new("s", "two"), None)
        .await
        .unwrap();
    assert_eq!(asking.tools.called().len(), 2);
    let asked = asking
        .calls()
        .await
        .iter()
        .filter(|call| *call == "asked")
        .count();
    assert_eq!(asked, 1);
    // Another conversation asks.
    let mut other = asking
        .service
        .start(RunRequest::new("t", "three"), None)
        .await
        .unwrap();
    let id = loop {
        let pending = asking.store.approvals(Some("t"), None).await.unwrap();
        if let Some(asked) = pending.first() {
            break asked.request.approval_id.clone();
        }
        tokio::task::yield_now().await;
    };
    asking
        .service
        .answer(ApprovalAnswer::new(&id, Resolution::Reject))
        .await
        .unwrap();
    other.finish().await.unwrap();
    assert_eq!(asking.tools.called().len(), 2);
}

/// Also by the first message of a new conversation, and only for the same user.
#[tokio::test]
async fn a_tool_that_is_always_approved_is_not_asked_about_in_other_conversations() {
    let session = SessionStart {
        agent_name: Some("desk".to_owned()),
        ..SessionStart::default()
    };
    let options = ServiceOptions {
        session,
        ..ServiceOptions::default()
    };
    let store = Arc::new(MemoryStore::new());
    let asking = Asking::with_options(store, options, |index| format!("call-{index}"));
    let always = |id: &str| {
        let mut answer = approve(id);
        answer.scope = ApprovalScope::Always;
        answer
    };
    asking.run("one", always).await.unwrap();
    asking
        .service
        .run_graph(RunRequest::new("t", "two"), None)
        .await
        .unwrap();
    assert_eq!(asking.tools.called().len(), 2);
    let stranger = RunRequest {
        user_id: Some("mallory".to_owned()),
        ..RunRequest::new("u", "three")
    };
    let mut run = asking.service.start(stranger, None).await.unwrap();
    let id = loop {
        if let Some(asked) = asking.store.approvals(Some("u"), None).await.unwrap().first() {
            break asked.request.approval_id.clone();
        }
        tokio::task::yield_now().await;
    };
    let reject = ApprovalAnswer::new(&id, Resolution::Reject).by(Some("mallory"));
    asking.service.answer(reject).await.unwrap();
    run.finish().await.unwrap();
    assert_eq!(asking.tools.called().len(), 2);
}

/// Some providers number the calls of each turn from the beginning.
#[tokio::test]
async fn an_earlier_approval_of_a_call_with_the_same_id_does_not_count() {
    let same = |_| "call-1".to_owned();
    let asking = Asking::with_ids(Arc::new(MemoryStore::new()), FOR_EVER, same);
    asking.run("one", approve).await.unwrap();
    let mut run = asking.start("two").await;
    let id = asking.question(run.run_id()).await;
    // Everything that could run, runs.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(asking.tools.called().len(), 1);
    let reject = ApprovalAnswer::new(&id, Resolution::Reject);
    asking.service.answer(reject).await.unwrap();
    run.finish().await.unwrap();
    assert_eq!(asking.tools.called().len(), 1);
}

/// A tool whose program changes with each step of a test; `None`: it has none.
#[derive(Default)]
struct Program(Mutex<Option<String>>);

impl CheckArguments for Program {
    fn check(&self, _: &str, _: &Value) -> Result<(), String> {
        Ok(())
    }

    fn digest(&self, tool: &str) -> Option<String> {
        assert_eq!(tool, "echo");
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn an_approval_does_not_count_for_a_tool_that_was_changed_after_the_question() {
    let modified = |id: &str| ApprovalAnswer::new(id, Resolution::Modify(json!({"text": "other"})));
    let decisions: [fn(&str) -> ApprovalAnswer; 2] = [approve, modified];
    for decide in decisions {
        for (before, after) in [
            (Some("1"), Some("1")),
            (None, None),
            (Some("1"), Some("2")),
            (Some("1"), None),
            (None, Some("2")),
        ] {
            let program = Arc::new(Program::default());
            let set = |digest: Option<&str>| *program.0.lock().unwrap() = digest.map(ToOwned::to_owned);
            let options = ServiceOptions {
                tools: Some(Arc::clone(&program) as Arc<_>),
                ..ServiceOptions::default()
            };
            let store = Arc::new(MemoryStore::new());
            let asking = Asking::with_options(store, options, |_| "call-0".to_owned());
            set(before);
            let answered = asking.run("hello", |id| {
                set(after);
                decide(id)
            });
            answered.await.unwrap();
            let calls = asking.calls().await;
            if before == after {
                assert!(calls[3].starts_with("true: "), "{calls:?}");
                assert_eq!(asking.tools.called().len(), 1);
            } else {
                assert!(
                    calls[3].starts_with("false: `echo` was changed after"),
                    "{calls:?}"
                );
                assert_eq!(asking.tools.called(), []);
            }
        }
    }
}
