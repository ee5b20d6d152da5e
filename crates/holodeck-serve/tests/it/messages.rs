//! Tests of sending messages over REST: repeated, concurrent, cancelled and over the limits.

use std::sync::Arc;

use holodeck_serve::{
    OnDisconnect, ServeOptions,
    conversation::{Concurrency, ServiceOptions},
    events::MemoryStore,
};
use holodeck_testkit::{Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Setup, World, payloads};

/// A server whose first answer waits for the gate.
async fn busy(setup: Setup) -> (World, Gate) {
    let gate = Gate::new();
    let inner = gate.clone();
    let world = World::with(setup, move |asked| match asked.index {
        0 => ScriptedTurn::nothing()
            .and_text("first")
            .and_wait_for(&inner)
            .and_text(" done"),
        _ => ScriptedTurn::text(&format!("re: {}", asked.message)),
    })
    .await;
    (world, gate)
}

fn concurrency(concurrency: Concurrency) -> Setup {
    Setup {
        service: ServiceOptions {
            concurrency,
            ..ServiceOptions::default()
        },
        ..Setup::default()
    }
}

fn id<'a>(reply: &'a Value, name: &str) -> &'a str {
    reply[name].as_str().unwrap_or_else(|| panic!("{reply}"))
}

#[tokio::test]
async fn a_message_is_answered_in_three_ways() {
    let world = World::new(|asked| ScriptedTurn::text(&format!("{}!", asked.message))).await;
    let accepted = world.say("s", "a").await;
    assert_eq!(accepted.status, 202);
    world.service.drain().await;
    let waited = world
        .post("/v1/sessions/s/messages?wait=true", json!({"message": "b"}))
        .await;
    assert_eq!(waited.status, 200);
    assert_eq!(
        (id(&waited.json(), "response"), &waited.json()["success"]),
        ("b!", &json!(true))
    );
    let path = "/v1/sessions/s/messages?stream=true";
    let stream = world.open(Method::POST, path, &[], r#"{"message": "c"}"#).await;
    let run_id = stream.headers["x-run-id"].to_str().unwrap().to_owned();
    let frames = stream.rest().await;
    let kinds: Vec<_> = frames.iter().map(crate::world::Frame::kind).collect();
    assert_eq!(
        kinds,
        ["user_message_confirmed", "message_chunk", "message", "complete"]
    );
    assert!(frames.iter().all(|frame| frame.event == "agent:event"));
    assert_eq!(id(&frames[0].json(), "runId"), run_id);
    let stored = world.stored("s").await;
    assert_eq!(payloads(&frames), stored[stored.len() - 4..]);
    let both = world
        .post(
            "/v1/sessions/s/messages?wait=true&stream=true",
            json!({"message": "d"}),
        )
        .await;
    assert_eq!(both.problem().0, 400);
}

#[tokio::test]
async fn a_run_that_fails_is_no_success() {
    let error = || holodeck_serve::conversation::api::BackendError::session("the model is away");
    let world = World::new(move |_| ScriptedTurn::nothing().and_text("so far").and_fail(error())).await;
    let failed = world
        .post("/v1/sessions/s/messages?wait=true", json!({"message": "a"}))
        .await;
    assert_eq!(failed.problem(), (502, "RUN_FAILED".to_owned()));
    let result = &failed.json()["result"];
    assert_eq!(
        (&result["success"], id(result, "response")),
        (&json!(false), "so far")
    );
    // A message that is sent again says the same.
    let again = json!({"message": "b", "clientMessageId": "c-1"});
    for _ in 0..2 {
        let failed = world
            .post("/v1/sessions/s/messages?wait=true", again.clone())
            .await;
        assert_eq!(failed.problem().1, "RUN_FAILED");
    }
}

#[tokio::test]
async fn a_message_that_is_sent_again_has_one_run() {
    let (world, gate) = busy(Setup::default()).await;
    let body = json!({"message": "a", "clientMessageId": "c-1"});
    let first = world.post("/v1/sessions/s/messages", body.clone()).await;
    let again = world.post("/v1/sessions/s/messages", body).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 200));
    assert_eq!(again.json(), first.json());
    // The header is the same id.
    let key = [("idempotency-key", "c-1")];
    let send = async |body: &str| {
        world
            .send(Method::POST, "/v1/sessions/s/messages", &key, body)
            .await
    };
    assert_eq!(send(r#"{"message": "a"}"#).await.json(), first.json());
    assert_eq!(
        send(r#"{"message": "b"}"#).await.problem(),
        (422, "MESSAGE_ID_REUSED".to_owned())
    );
    let other = send(r#"{"message": "a", "clientMessageId": "c-2"}"#).await;
    assert_eq!(other.problem().0, 400);
    // Its stream and its result are those of the run.
    gate.open();
    let body = json!({"message": "a", "clientMessageId": "c-1"});
    let waited = world
        .post("/v1/sessions/s/messages?wait=true", body.clone())
        .await;
    assert_eq!(id(&waited.json(), "response"), "first done");
    let path = "/v1/sessions/s/messages?stream=true";
    let frames = world
        .open(Method::POST, path, &[], &body.to_string())
        .await
        .rest()
        .await;
    assert_eq!(payloads(&frames), world.stored("s").await[1..]);
}

#[tokio::test]
async fn a_second_message_is_refused_or_waits() {
    let (world, gate) = busy(Setup::default()).await;
    let first = world.say("s", "a").await.json();
    let refused = world.say("s", "b").await;
    assert_eq!(refused.problem(), (409, "RUN_IN_PROGRESS".to_owned()));
    assert_eq!(refused.headers["retry-after"], "1");
    // Another conversation is free.
    assert_eq!(
        world
            .post("/v1/sessions/t/messages?wait=true", json!({"message": "c"}))
            .await
            .status,
        200
    );
    let stream = world
        .stream(&format!("/v1/runs/{}/events", id(&first, "runId")), None)
        .await;
    gate.open();
    assert_eq!(stream.rest().await.last().unwrap().kind(), "complete");

    let (world, gate) = busy(concurrency(Concurrency::Enqueue)).await;
    world.say("s", "a").await;
    let path = "/v1/sessions/s/messages?stream=true";
    let waiting = world.open(Method::POST, path, &[], r#"{"message": "b"}"#).await;
    gate.open();
    let frames = waiting.rest().await;
    assert_eq!(frames[0].json()["content"], "b");
    assert_eq!(frames.last().unwrap().kind(), "complete");
    let all = world.stored("s").await;
    // Its own events, and all of them.
    assert_eq!(payloads(&frames), all[all.len() - frames.len()..]);
}

#[tokio::test]
async fn a_message_that_waits_can_be_withdrawn() {
    let (world, gate) = busy(concurrency(Concurrency::Enqueue)).await;
    world.say("s", "a").await;
    let path = "/v1/sessions/s/messages?stream=true";
    let mut waiting = world.open(Method::POST, path, &[], r#"{"message": "b"}"#).await;
    let run_id = waiting.headers["x-run-id"].to_str().unwrap().to_owned();
    let cancelled = world.post(&format!("/v1/runs/{run_id}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 202);
    let frame = waiting.next().await.unwrap();
    assert_eq!(frame.event, "agent:error");
    assert_eq!(waiting.next().await, None);
    let body = r#"{"message": "c", "session_id": "s"}"#;
    let mut older = world
        .open(Method::POST, "/agent/helper/chat/stream", &[], body)
        .await;
    assert_eq!(older.next().await.unwrap().event, "stream_start");
    let stored = world.get("/v1/sessions/s").await.json();
    for run in world.service.runs_of("s") {
        if run.run_id() != id(&stored, "openRun") {
            run.cancel();
        }
    }
    assert_eq!(older.next().await.unwrap().event, "error");
    assert_eq!(older.next().await, None);
    gate.open();
    world.service.drain().await;
    assert!(
        !world
            .stored("s")
            .await
            .iter()
            .any(|(_, json)| json.contains(&run_id))
    );
}

#[tokio::test]
async fn a_run_is_cancelled_once() {
    let (world, _gate) = busy(Setup::default()).await;
    let run = world.say("s", "a").await.json();
    let cancel = format!("/v1/runs/{}/cancel", id(&run, "runId"));
    let events = format!("/v1/runs/{}/events", id(&run, "runId"));
    let mut stream = world.stream(&events, None).await;
    stream.wait_for("message_chunk").await;
    assert_eq!(world.post(&cancel, json!({})).await.status, 202);
    let rest = stream.rest().await;
    let end = rest.last().unwrap().json();
    assert_eq!(
        (id(&end, "type"), id(&end, "reason")),
        ("complete", "user_cancelled")
    );
    let all = world.stored("s").await;
    let again = world.post(&cancel, json!({})).await;
    assert_eq!(
        (again.status.as_u16(), again.json()["state"].as_str()),
        (200, Some("done"))
    );
    assert_eq!(world.stored("s").await, all);
    let unknown = world.post("/v1/runs/r-none/cancel", json!({})).await;
    assert_eq!(unknown.problem(), (404, "RUN_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_client_that_leaves_stops_nothing_unless_it_should() {
    for (on_disconnect, reason) in [
        (OnDisconnect::Continue, "success"),
        (OnDisconnect::Cancel, "user_cancelled"),
    ] {
        let setup = Setup {
            store: Arc::new(MemoryStore::new()),
            options: ServeOptions {
                on_disconnect,
                ..ServeOptions::default()
            },
            ..Setup::default()
        };
        let (world, gate) = busy(setup).await;
        let path = "/v1/sessions/s/messages?stream=true";
        let mut stream = world.open(Method::POST, path, &[], r#"{"message": "a"}"#).await;
        let run = stream.wait_for("message_chunk").await.json();
        drop(stream);
        if on_disconnect == OnDisconnect::Continue {
            gate.open();
        }
        let mut events = world.store.subscribe("s", None).await.unwrap();
        let end = loop {
            let event = events.next().await.unwrap().unwrap();
            if event.event().body.is_terminal() {
                break event;
            }
        };
        assert!(
            end.json().contains(&format!(r#""reason":"{reason}""#)),
            "{}",
            end.json()
        );
        assert_eq!(end.event().meta.run_id.as_deref(), Some(id(&run, "runId")));
        gate.open();
    }
}

#[tokio::test]
async fn one_of_two_clients_may_leave() {
    let setup = Setup {
        options: ServeOptions {
            on_disconnect: OnDisconnect::Cancel,
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let (world, gate) = busy(setup).await;
    world.post("/v1/sessions", json!({"sessionId": "s"})).await;
    let path = "/v1/sessions/s/events?follow=true";
    let (mut one, mut other) = (world.stream(path, None).await, world.stream(path, None).await);
    world.say("s", "a").await;
    one.wait_for("message_chunk").await;
    other.wait_for("message_chunk").await;
    drop(one);
    // The server has noticed once there is one stream.
    while !world
        .get("/metrics")
        .await
        .text
        .contains("holodeck_event_streams 1\n")
    {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert_eq!(other.wait_for("complete").await.json()["reason"], "success");
}

#[tokio::test]
async fn more_runs_than_the_limit_are_refused() {
    let setup = Setup {
        max_runs: 1,
        ..Setup::default()
    };
    let (world, gate) = busy(setup).await;
    world.say("s", "a").await;
    let refused = world.say("t", "b").await;
    assert_eq!(refused.problem(), (429, "TOO_MANY_RUNS".to_owned()));
    assert_eq!(refused.headers["retry-after"], "5");
    let completion = json!({"model": "helper", "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(world.post("/v1/chat/completions", completion).await.status, 429);
    gate.open();
    // Its place is free again.
    while world.say("t", "b").await.status != 202 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn agents_share_the_limit_of_the_server() {
    let setup = Setup {
        options: ServeOptions {
            max_runs: 1,
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let (world, _gate) = busy(setup).await;
    world.say("s", "a").await;
    let refused = world.say("t", "b").await;
    assert_eq!(refused.problem(), (429, "TOO_MANY_RUNS".to_owned()));
    assert!(refused.text.contains("1 runs are active"), "{}", refused.text);
}

#[tokio::test]
async fn a_message_says_whether_the_model_reasons() {
    let world = World::new(|asked| ScriptedTurn::text(&format!("{:?}", asked.thinking))).await;
    for (body, expected) in [
        (json!({"message": "a"}), "None"),
        (
            json!({"message": "a", "enableThinking": true}),
            "Some(Budget(10000))",
        ),
        (
            json!({"message": "a", "enableThinking": true, "thinkingBudget": 1024}),
            "Some(Budget(1024))",
        ),
        (json!({"message": "a", "enableThinking": false}), "Some(Off)"),
    ] {
        let reply = world.post("/v1/sessions/s/messages?wait=true", body).await;
        assert_eq!(id(&reply.json(), "response"), expected);
    }
}

#[tokio::test]
async fn options_that_cannot_be_are_refused_before_anything_is_stored() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    for (body, code) in [
        (
            json!({"message": "a", "enableThinking": true, "thinkingBudget": 1023}),
            "INVALID_REQUEST",
        ),
        (json!({"message": "a", "thinkingBudget": 2000}), "INVALID_REQUEST"),
        (json!({"message": "a", "attachments": ["f-1"]}), "INVALID_REQUEST"),
        (
            json!({"message": "a", "enableAutoSemanticSearch": true}),
            "INVALID_REQUEST",
        ),
        // E-53: who sends is known from the connection.
        (json!({"message": "a", "userId": "bob"}), "INVALID_REQUEST"),
        (json!({"message": " "}), "INVALID_REQUEST"),
        (json!({}), "INVALID_REQUEST"),
    ] {
        let refused = world.post("/v1/sessions/s/messages", body.clone()).await;
        assert_eq!(refused.problem().1, code, "{body}");
    }
    assert_eq!(world.say("a%20b", "x").await.status, 400);
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
    let large = json!({"message": "x".repeat(1 << 20)});
    let refused = world.post("/v1/sessions/s/messages", large).await;
    assert_eq!(refused.problem(), (413, "TOO_LARGE".to_owned()));
}
