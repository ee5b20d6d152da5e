//! Tests of requests that clients send again by themselves: a tool runs once, also after a restart.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use holodeck_serve::{
    ServeOptions,
    conversation::{
        ServiceOptions,
        api::{
            ApprovalAsk, ApprovalDecision, Approver, BackendError, DecidedBy, Outcome, Ruling, StopReason,
            ToolCall,
        },
        model::Clock,
    },
    events::{SqliteOptions, SqliteStore},
};
use holodeck_testkit::{Gate, ScriptedBackend, ScriptedTools, ScriptedTurn};
use http::Method;
use jiff::Timestamp;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Reply, Setup, World, two_users};

const PATH: &str = "/v1/chat/completions";

struct ApproveAll;

impl Approver for ApproveAll {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        Some(Ruling::new(ApprovalDecision::approve(), DecidedBy::Mode))
    }
}

fn call(id: usize) -> ToolCall {
    ToolCall {
        name: "echo".to_owned(),
        arguments: json!({"text": "x"}),
        call_id: format!("call-{id}"),
        provider_fields: None,
    }
}

/// A server whose agent calls a tool, and then does what `after` adds.
async fn calling(
    mut setup: Setup,
    after: impl Fn(ScriptedTurn) -> ScriptedTurn + Send + Sync + 'static,
) -> (World, Arc<ScriptedTools>) {
    let tools = Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(move |asked| {
        after(ScriptedTurn::nothing().and_call(vec![call(asked.index)]))
    });
    setup.backend = Some(backend.with_tools(Arc::clone(&tools) as Arc<_>));
    setup.service.policy = Some(Arc::new(ApproveAll));
    (World::with(setup, |_| unreachable!()).await, tools)
}

/// A server whose agent calls its tool and then waits for the gate.
async fn calling_until(gate: &Gate) -> (Arc<World>, Arc<ScriptedTools>) {
    let gate = gate.clone();
    let after = move |turn: ScriptedTurn| turn.and_wait_for(&gate).and_text("done");
    let (world, tools) = calling(Setup::default(), after).await;
    (Arc::new(world), tools)
}

fn body(text: &str) -> Value {
    json!({"model": "helper", "messages": [
        {"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"},
        {"role": "user", "content": text},
    ]})
}

async fn send(world: &World, key: &str, body: &Value) -> Reply {
    let headers = [("idempotency-key", key)];
    world.send(Method::POST, PATH, &headers, &body.to_string()).await
}

fn content(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_request_with_the_same_key_gets_the_same_answer_and_runs_no_tool_again() {
    let (world, tools) = calling(Setup::default(), |turn| turn.and_text("done")).await;
    let first = send(&world, "k-1", &body("go")).await;
    assert_eq!(content(&first), "done");
    for _ in 0..3 {
        let again = send(&world, "k-1", &body("go")).await;
        assert_eq!(
            (content(&again), again.json()["id"].clone()),
            ("done".to_owned(), first.json()["id"].clone())
        );
    }
    // The order of fields is no part of a request.
    let mut turned = serde_json::Map::new();
    for (name, value) in body("go").as_object().unwrap().iter().rev() {
        turned.insert(name.clone(), value.clone());
    }
    assert_eq!(
        content(&send(&world, "k-1", &Value::Object(turned)).await),
        "done"
    );
    assert_eq!(tools.called().len(), 1);
    // Another body is an error of the client, another key another request.
    for changed in [body("go on"), {
        let mut streamed = body("go");
        streamed["stream"] = json!(true);
        streamed
    }] {
        let refused = send(&world, "k-1", &changed).await;
        assert_eq!(refused.status, 422);
        assert_eq!(refused.json()["error"]["code"], "message_id_reused");
    }
    assert_eq!(tools.called().len(), 1);
    send(&world, "k-2", &body("go")).await;
    assert_eq!(tools.called().len(), 2);
    for key in ["", " ", &"k".repeat(256)] {
        assert_eq!(send(&world, key, &body("go")).await.status, 400);
    }
    let twice = [("idempotency-key", "a"), ("idempotency-key", "b")];
    let reply = world
        .send(Method::POST, PATH, &twice, &body("go").to_string())
        .await;
    assert_eq!(reply.status, 400);
    assert_eq!(tools.called().len(), 2);
}

#[tokio::test]
async fn requests_at_the_same_time_with_one_key_are_one_run() {
    let gate = Gate::new();
    let inner = gate.clone();
    let (world, tools) = calling(Setup::default(), move |turn| {
        turn.and_wait_for(&inner).and_text("done")
    })
    .await;
    let world = Arc::new(world);
    let requests: Vec<_> = (0..8)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { send(&world, "k", &body("go")).await })
        })
        .collect();
    while tools.called().is_empty() {
        tokio::task::yield_now().await;
    }
    gate.open();
    for request in requests {
        assert_eq!(content(&request.await.unwrap()), "done");
    }
    assert_eq!(tools.called().len(), 1);
}

#[tokio::test]
async fn a_client_that_left_gets_the_answer_with_its_next_try() {
    let gate = Gate::new();
    let inner = gate.clone();
    let (world, tools) = calling(Setup::default(), move |turn| {
        turn.and_text("so far").and_wait_for(&inner).and_text(" and done")
    })
    .await;
    let mut streamed = body("go");
    streamed["stream"] = json!(true);
    let headers = [("idempotency-key", "k")];
    let text = streamed.to_string();
    let mut stream = world.open(Method::POST, PATH, &headers, &text).await;
    while !stream.next().await.unwrap().data.contains("so far") {}
    drop(stream);
    gate.open();
    let frames = world.open(Method::POST, PATH, &headers, &text).await.rest().await;
    assert_eq!(frames.last().unwrap().data, "[DONE]");
    let written: String = frames
        .iter()
        .filter(|frame| frame.data != "[DONE]")
        .filter_map(|frame| {
            frame.json()["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(written, "so far and done");
    assert_eq!(tools.called().len(), 1);
}

#[tokio::test]
async fn a_key_counts_for_one_user_only() {
    let setup = Setup {
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let (world, tools) = calling(setup, |turn| turn.and_text("done")).await;
    let mut ids = Vec::new();
    for user in ["alice", "bob", "alice", "bob"] {
        let token = format!("Bearer token-of-{user}");
        let headers = [("authorization", &*token), ("idempotency-key", "k")];
        let reply = world
            .send(Method::POST, PATH, &headers, &body("go").to_string())
            .await;
        assert_eq!(content(&reply), "done");
        ids.push(reply.json()["id"].clone());
    }
    assert_eq!((&ids[0], &ids[1]), (&ids[2], &ids[3]));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(tools.called().len(), 2);
}

#[tokio::test]
async fn a_failed_answer_after_a_tool_ran_asks_not_to_be_retried() {
    let fail = |turn: ScriptedTurn| turn.and_fail(BackendError::session("away"));
    let (world, tools) = calling(Setup::default(), fail).await;
    let should_retry = |reply: &Reply| {
        reply
            .headers
            .get("x-should-retry")
            .map(|value| value.to_str().unwrap().to_owned())
    };
    for (path, request) in [
        (PATH, body("go")),
        ("/v1/sessions/s/messages?wait=true", json!({"message": "go"})),
        ("/agent/helper/chat", json!({"message": "go"})),
    ] {
        let failed = world.post(path, request).await;
        assert_eq!(failed.status, 502, "{path}");
        assert_eq!(should_retry(&failed).as_deref(), Some("false"), "{path}");
    }
    assert_eq!(tools.called().len(), 3);
    // With a key, another try gets the same failure.
    for _ in 0..3 {
        let failed = send(&world, "k", &body("go")).await;
        assert_eq!(
            (failed.status.as_u16(), should_retry(&failed).as_deref()),
            (502, Some("false"))
        );
    }
    assert_eq!(tools.called().len(), 4);
    // Nothing was done: a client may try again.
    let world = World::new(|_| ScriptedTurn::failing(BackendError::session("away"))).await;
    for path in [PATH, "/v1/sessions/s/messages?wait=true"] {
        let request = if path == PATH {
            body("go")
        } else {
            json!({"message": "go"})
        };
        let failed = world.post(path, request).await;
        assert_eq!((failed.status.as_u16(), should_retry(&failed)), (502, None));
    }
}

#[tokio::test]
async fn a_key_is_kept_over_a_restart_and_the_end_of_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    let open = || SqliteStore::open(path.clone(), SqliteOptions::default());
    let setup = |store: &SqliteStore| Setup {
        store: Arc::new(store.clone()),
        ..Setup::default()
    };
    let store = open().await.unwrap();
    let gate = Gate::new();
    let inner = gate.clone();
    let (world, tools) = calling(setup(&store), move |turn| {
        turn.and_text("done").and_wait_for(&inner)
    })
    .await;
    gate.open();
    let first = send(&world, "whole", &body("go")).await.json();
    drop(world);
    store.close().await.unwrap();
    // The next process answers from what is stored.
    let store = open().await.unwrap();
    let (world, later) = calling(setup(&store), |turn| turn.and_text("again")).await;
    let again = send(&world, "whole", &body("go")).await;
    assert_eq!(
        (content(&again), &again.json()["id"]),
        ("done".to_owned(), &first["id"])
    );
    assert_eq!((tools.called().len(), later.called().len()), (1, 0));
    assert_eq!(send(&world, "whole", &body("other")).await.status, 422);
}

#[derive(Debug)]
struct Shifted(Arc<Mutex<jiff::SignedDuration>>);

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.0.lock().unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn a_key_counts_for_a_day() {
    let shift = Arc::new(Mutex::new(jiff::SignedDuration::from_hours(-23)));
    let setup = Setup {
        service: ServiceOptions {
            clock: Arc::new(Shifted(Arc::clone(&shift))),
            ..ServiceOptions::default()
        },
        ..Setup::default()
    };
    let (world, tools) = calling(setup, |turn| turn.and_text("done")).await;
    let first = send(&world, "k", &body("go")).await.json()["id"].clone();
    assert_eq!(send(&world, "k", &body("go")).await.json()["id"], first);
    // Another key, whose first use was longer ago: its second use is a new one, which counts in turn.
    *shift.lock().unwrap() = jiff::SignedDuration::from_hours(-25);
    let old = send(&world, "old", &body("go")).await.json()["id"].clone();
    *shift.lock().unwrap() = jiff::SignedDuration::ZERO;
    let new = send(&world, "old", &body("go on")).await.json()["id"].clone();
    assert_ne!(old, new);
    assert_eq!(send(&world, "old", &body("go on")).await.json()["id"], new);
    assert_eq!(tools.called().len(), 3);
    // A conversation that was deleted meanwhile has no answer to repeat.
    let sessions = world.get("/v1/sessions").await.json();
    for session in sessions["sessions"].as_array().unwrap() {
        let id = session["sessionId"].as_str().unwrap();
        assert_eq!(
            world
                .send(Method::DELETE, &format!("/v1/sessions/{id}"), &[], "")
                .await
                .status,
            204
        );
    }
    assert_eq!(content(&send(&world, "k", &body("go")).await), "done");
    assert_eq!(tools.called().len(), 4);
}

#[tokio::test]
async fn an_answer_that_was_cut_or_filtered_says_so() {
    for (stop, outcome, reason) in [
        (StopReason::EndTurn, None, "stop"),
        (StopReason::MaxTokens, None, "length"),
        (StopReason::Refusal, Some(Outcome::Refused), "content_filter"),
    ] {
        let turn = ScriptedTurn::text("so far").and_stop(stop.clone());
        let turn = match outcome {
            Some(outcome) => ScriptedTurn::text("so far")
                .and_event(holodeck_serve::conversation::api::BackendEvent::TurnEnd {
                    stop_reason: stop,
                    message_id: None,
                    model: None,
                })
                .and_end(outcome),
            None => turn,
        };
        let world = World::new(move |_| turn.clone()).await;
        let whole = world.post(PATH, body("go")).await;
        assert_eq!(content(&whole), "so far", "{reason}");
        assert_eq!(whole.json()["choices"][0]["finish_reason"], reason);
        let mut streamed = body("go");
        streamed["stream"] = json!(true);
        let frames = world
            .open(Method::POST, PATH, &[], &streamed.to_string())
            .await
            .rest()
            .await;
        let reasons: Vec<String> = frames
            .iter()
            .filter(|frame| frame.data != "[DONE]")
            .filter_map(|frame| {
                frame.json()["choices"][0]["finish_reason"]
                    .as_str()
                    .map(str::to_owned)
            })
            .collect();
        assert_eq!(reasons, [reason]);
    }
}

/// The two addresses whose runs belong to a key, with a request for each.
fn keyed_requests() -> [(&'static str, String); 2] {
    [
        (PATH, body("go").to_string()),
        (
            "/v1/responses",
            json!({"model": "helper", "input": "go"}).to_string(),
        ),
    ]
}

/// Sends a request with the key `k` in the background.
fn begin(world: &Arc<World>, path: &'static str, body: &str) -> tokio::task::JoinHandle<Reply> {
    let (world, body) = (Arc::clone(world), body.to_owned());
    tokio::spawn(async move {
        let headers = [("idempotency-key", "k")];
        world.send(Method::POST, path, &headers, &body).await
    })
}

/// The only conversation, and the run that is open in it.
async fn open_run(world: &World) -> (String, Option<String>) {
    let mut sessions = world.store.sessions_page(None, None, 9).await.unwrap();
    assert_eq!(sessions.len(), 1);
    let session = sessions.remove(0);
    (session.session_id, session.open_run)
}

#[tokio::test]
async fn a_run_that_answers_a_key_can_be_stopped_by_its_id() {
    for (path, body) in keyed_requests() {
        let gate = Gate::new();
        let (world, tools) = calling_until(&gate).await;
        let first = begin(&world, path, &body);
        tools.until_called().await;
        let (_, run_id) = open_run(&world).await;
        let run_id = run_id.unwrap();
        let cancelled = world.post(&format!("/v1/runs/{run_id}/cancel"), json!({})).await;
        assert_eq!(cancelled.status, 202, "{path} {cancelled:?}");
        assert_ne!(first.await.unwrap().status, 200);
        // The run is over, and its key names it.
        let again = begin(&world, path, &body).await.unwrap();
        assert_ne!(again.status, 200, "{again:?}");
        assert_eq!(tools.called().len(), 1);
    }
}

#[tokio::test]
async fn a_run_that_ended_from_outside_after_it_called_a_tool_is_answered_with_what_it_called() {
    let forms = [
        ("/agent/helper/chat", json!({"message": "go"}).to_string()),
        (
            "/agent/helper/chat",
            json!({"message": "go", "session_id": "t"}).to_string(),
        ),
        (
            "/v1/sessions/t/messages?wait=true",
            json!({"message": "go"}).to_string(),
        ),
    ];
    for (path, body) in keyed_requests().into_iter().chain(forms) {
        for is_lost in [false, true] {
            let gate = Gate::new();
            let (world, tools) = calling_until(&gate).await;
            let first = begin(&world, path, &body);
            tools.until_called().await;
            // Until the result of the tool is stored.
            let (session_id, run_id) = loop {
                let (session_id, run_id) = open_run(&world).await;
                let stored = world.stored(&session_id).await;
                if stored
                    .iter()
                    .any(|(_, event)| event.contains(r#""type":"tool_result""#))
                {
                    break (session_id, run_id.unwrap());
                }
                tokio::task::yield_now().await;
            };
            if is_lost {
                // As another process does when this one is dead.
                world.store.abandon(&session_id, &run_id);
                world.store.recover().await.unwrap();
                let run = world.store.run(&run_id).await.unwrap().unwrap();
                assert!(run.last_index.is_some(), "{path} {run:?}");
            } else {
                let stopped = world.post(&format!("/v1/runs/{run_id}/cancel"), json!({})).await;
                assert_eq!(stopped.status, 202, "{path}");
                assert_ne!(first.await.unwrap().status, 200, "{path}");
            }
            gate.open();
            let again = begin(&world, path, &body).await.unwrap();
            assert_eq!(again.status, 502, "{path} {is_lost} {again:?}");
            assert_eq!(again.headers["x-should-retry"], "false", "{path}");
            assert_eq!(tools.called().len(), 1, "{path}");
            if keyed_requests().iter().any(|(keyed, _)| *keyed == path) {
                let error = &again.json()["error"];
                assert_eq!(error["code"], "run_stopped", "{path} {again:?}");
                let message = error["message"].as_str().unwrap();
                let begins = if is_lost {
                    "the process ended during the run, which had called `echo`; it is not run again"
                } else {
                    "the run was stopped after it called `echo`; it is not run again"
                };
                assert!(message.starts_with(begins), "{path} {message}");
            }
        }
    }
}

#[tokio::test]
async fn a_conversation_that_is_deleted_by_force_ends_the_run_that_answers_a_key_first() {
    for (path, body) in keyed_requests() {
        let gate = Gate::new();
        let (world, tools) = calling_until(&gate).await;
        let first = begin(&world, path, &body);
        tools.until_called().await;
        let (session_id, _) = open_run(&world).await;
        let address = format!("/v1/sessions/{session_id}?force=true");
        let deleted = world.send(Method::DELETE, &address, &[], "").await;
        assert_eq!(deleted.status, 204, "{path} {deleted:?}");
        // It ends although what it waits for never comes.
        assert_ne!(first.await.unwrap().status, 200);
        assert_eq!(tools.called().len(), 1);
        // With the conversation, the key is forgotten.
        gate.open();
        assert_eq!(begin(&world, path, &body).await.unwrap().status, 200);
        assert_eq!(tools.called().len(), 2);
    }
}

#[tokio::test]
async fn a_key_whose_conversation_was_deleted_elsewhere_runs_nothing_beside_its_first_run() {
    for (path, body) in keyed_requests() {
        let gate = Gate::new();
        let (world, tools) = calling_until(&gate).await;
        let first = begin(&world, path, &body);
        tools.until_called().await;
        let (session_id, _) = open_run(&world).await;
        // As another process does.
        world.store.delete_session(&session_id, true).await.unwrap();
        let again = begin(&world, path, &body);
        for _ in 0..50 {
            world.get("/health").await;
        }
        assert_eq!(tools.called().len(), 1, "{path}");
        gate.open();
        assert_ne!(first.await.unwrap().status, 200);
        assert_eq!(again.await.unwrap().status, 200);
        assert_eq!(tools.called().len(), 2);
    }
}

#[tokio::test]
async fn a_key_whose_conversation_has_another_run_is_refused_by_name() {
    for (path, body) in keyed_requests() {
        let (world, _) = calling(Setup::default(), |turn| turn.and_text("done")).await;
        let world = Arc::new(world);
        assert_eq!(begin(&world, path, &body).await.unwrap().status, 200);
        let (session_id, _) = open_run(&world).await;
        // The same id elsewhere, where somebody speaks in it.
        let gate = Gate::new();
        let inner = gate.clone();
        let (world, tools) = calling(Setup::default(), move |turn| turn.and_wait_for(&inner)).await;
        let world = Arc::new(world);
        assert_eq!(world.say(&session_id, "hello").await.status, 202);
        tools.until_called().await;
        let refused = begin(&world, path, &body).await.unwrap();
        assert_eq!(refused.status, 409, "{path} {refused:?}");
        assert_eq!(refused.json()["error"]["code"], "run_in_progress");
        assert_eq!(tools.called().len(), 1);
        gate.open();
    }
}
