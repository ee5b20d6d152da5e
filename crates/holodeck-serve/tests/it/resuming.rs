//! Tests that clients resume event streams anywhere without loss, also after a restart.

use std::{sync::Arc, time::Duration};

use holodeck_serve::{
    ServeOptions,
    events::{EventStore, MemoryStore, SqliteOptions, SqliteStore},
};
use holodeck_testkit::{Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{Setup, World, payloads};

fn chatty() -> ScriptedTurn {
    ScriptedTurn::text("one ").and_text("two ").and_text("three")
}

#[tokio::test]
async fn a_client_that_is_cut_after_any_event_gets_the_rest() {
    let world = World::new(|_| chatty()).await;
    world.say("s", "a").await;
    world.service.drain().await;
    let all = world.stored("s").await;
    assert!(all.len() > 5);
    for cut in 0..=all.len() {
        let mut stream = world.stream("/v1/sessions/s/events?follow=true", None).await;
        let mut got = Vec::new();
        for _ in 0..cut {
            got.push(stream.next().await.unwrap());
        }
        drop(stream);
        let last = got.last().and_then(|frame| frame.id);
        got.extend(world.stream("/v1/sessions/s/events", last).await.rest().await);
        assert_eq!(payloads(&got), all, "cut after {cut}");
    }
}

#[tokio::test]
async fn a_client_that_is_cut_during_a_run_gets_the_rest() {
    let gate = Gate::new();
    let inner = gate.clone();
    let world = World::new(move |_| {
        ScriptedTurn::nothing()
            .and_text("first")
            .and_wait_for(&inner)
            .and_text("second")
    })
    .await;
    let run = world.say("s", "a").await.json();
    let path = format!("/v1/runs/{}/events", run["runId"].as_str().unwrap());
    let mut stream = world.stream(&path, None).await;
    let mut got = vec![stream.next().await.unwrap()];
    got.push(stream.wait_for("message_chunk").await);
    drop(stream);
    gate.open();
    got.extend(world.stream(&path, got.last().unwrap().id).await.rest().await);
    // The session began before the run.
    assert_eq!(payloads(&got), world.stored("s").await[1..]);
    assert_eq!(got.last().unwrap().kind(), "complete");
}

#[tokio::test]
async fn the_end_of_a_run_is_served_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = async || {
        let path = folder.path().join("events.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        Arc::new(store.unwrap()) as Arc<dyn EventStore>
    };
    let setup = Setup {
        store: open().await,
        ..Setup::default()
    };
    let world = World::with(setup, |_| chatty()).await;
    let run = world.say("s", "a").await.json();
    world.service.drain().await;
    let all = world.stored("s").await;
    world.stop();
    let World {
        ended,
        store,
        service,
        ..
    } = world;
    ended.await.unwrap();
    drop((store, service));
    let setup = Setup {
        store: open().await,
        ..Setup::default()
    };
    let world = World::with(setup, |_| panic!("nothing is asked")).await;
    let path = format!("/v1/runs/{}/events", run["runId"].as_str().unwrap());
    let rest = world.stream(&path, Some(all[3].0)).await.rest().await;
    assert_eq!(payloads(&rest), all[4..]);
    assert_eq!(rest.last().unwrap().kind(), "complete");
    // A client that has the end already gets an empty stream, which ends as well.
    let last = all.last().unwrap().0;
    assert_eq!(world.stream(&path, Some(last)).await.rest().await, []);
}

#[tokio::test]
async fn cursors_that_cannot_be_are_refused() {
    let world = World::new(|_| chatty()).await;
    world.say("s", "a").await;
    world.service.drain().await;
    let head = world.stored("s").await.last().unwrap().0;
    let with = async |last: &str| {
        let headers = [("last-event-id", last)];
        world
            .send(Method::GET, "/v1/sessions/s/events", &headers, "")
            .await
    };
    assert_eq!(with("abc").await.problem(), (400, "INVALID_REQUEST".to_owned()));
    let ahead = with(&(head + 1).to_string()).await;
    assert_eq!(ahead.problem(), (409, "CURSOR_AHEAD".to_owned()));
    assert_eq!(ahead.json()["headIndex"], head);
    let all = world.get("/v1/sessions/s/events").await.text;
    assert_eq!(with("-1").await.text, all);
    // The header is newer than the address.
    let headers = [("last-event-id", "-1")];
    let both = world
        .send(Method::GET, "/v1/sessions/s/events?after=3", &headers, "")
        .await;
    assert_eq!(both.text, all);
    assert_eq!(world.get("/v1/sessions/s/events?after=-1").await.text, all);
    assert!(
        world
            .get(&format!("/v1/sessions/s/events?after={head}"))
            .await
            .text
            .starts_with("retry: ")
    );
}

#[tokio::test]
async fn two_clients_get_the_same_frames() {
    let world = World::new(|_| chatty()).await;
    world.post("/v1/sessions", json!({"sessionId": "s"})).await;
    let path = "/v1/sessions/s/events?follow=true";
    let (mut one, mut other) = (world.stream(path, None).await, world.stream(path, None).await);
    world.say("s", "a").await;
    loop {
        let frame = one.next().await.unwrap();
        assert_eq!(other.next().await.as_ref(), Some(&frame));
        if frame.kind() == "complete" {
            break;
        }
    }
}

#[tokio::test]
async fn an_idle_stream_is_kept_open() {
    let setup = Setup {
        options: ServeOptions {
            heartbeat: Duration::from_millis(5),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| chatty()).await;
    world.post("/v1/sessions", json!({"sessionId": "s"})).await;
    let mut stream = world.stream("/v1/sessions/s/events?follow=true", None).await;
    let mut heartbeats = 0;
    while heartbeats < 3 {
        heartbeats += usize::from(stream.block().await.unwrap() == ": idle");
    }
    world.say("s", "a").await;
    assert_eq!(
        stream.wait_for("message").await.json()["content"],
        "one two three"
    );
}

#[tokio::test]
async fn every_kind_of_stream_is_kept_open() {
    let gate = Gate::new();
    let inner = gate.clone();
    let setup = Setup {
        options: ServeOptions {
            heartbeat: Duration::from_millis(5),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, move |_| {
        ScriptedTurn::nothing().and_text("x").and_wait_for(&inner)
    })
    .await;
    let message = json!({"role": "user", "content": "a", "id": "m"});
    let run = json!({
        "threadId": "t", "runId": "r", "state": {}, "messages": [message], "tools": [], "context": [],
        "forwardedProps": {},
    });
    let completion = json!({"model": "helper", "messages": [message], "stream": true});
    let mut streams = Vec::new();
    for (path, body) in [
        ("/v1/sessions/s/messages?stream=true", json!({"message": "a"})),
        ("/agent/helper/chat/stream", json!({"message": "a"})),
        ("/v1/chat/completions", completion),
        ("/awp", run),
    ] {
        let mut stream = world.open(Method::POST, path, &[], &body.to_string()).await;
        assert_eq!(stream.status, 200, "{path}");
        let mut heartbeats = 0;
        while heartbeats < 3 {
            heartbeats += usize::from(stream.block().await.unwrap() == ": idle");
        }
        streams.push(stream);
    }
    gate.open();
    for stream in streams {
        assert!(!stream.rest().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_conversations_at_once_lose_nothing() {
    const PIECES: usize = 50;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("events.db"), SqliteOptions::default()).await;
    let setup = Setup {
        store: Arc::new(store.unwrap()),
        options: ServeOptions {
            max_runs: 100,
            ..ServeOptions::default()
        },
        max_runs: 100,
        ..Setup::default()
    };
    let script = |message: &str| {
        (0..PIECES).fold(ScriptedTurn::nothing(), |turn, piece| {
            turn.and_text(&format!("{message}.{piece} "))
                .and_wait(Duration::from_millis(1))
        })
    };
    let world = Arc::new(World::with(setup, move |asked| script(&asked.message)).await);
    let clients = (0..100).map(|number| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let session = format!("s{number}");
            world.post("/v1/sessions", json!({"sessionId": session})).await;
            let path = format!("/v1/sessions/{session}/events?follow=true");
            let mut stream = world.stream(&path, None).await;
            assert_eq!(world.say(&session, &session).await.status, 202);
            let mut got = Vec::new();
            loop {
                let frame = stream.next().await.unwrap();
                let is_last = frame.kind() == "complete";
                got.push(frame);
                if is_last {
                    break;
                }
            }
            assert_eq!(payloads(&got), world.stored(&session).await);
            let chunks = got.iter().filter(|frame| frame.kind() == "message_chunk");
            let text: String = chunks
                .map(|frame| frame.json()["content"].as_str().unwrap().to_owned())
                .collect();
            let written: Vec<String> = (0..PIECES).map(|piece| format!("{session}.{piece} ")).collect();
            assert_eq!(text, written.concat());
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_disconnected_and_resumes() {
    let setup = Setup {
        store: Arc::new(MemoryStore::new()),
        options: ServeOptions {
            slow_consumer: Duration::from_millis(200),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    // More than sockets and the queue hold.
    let large = "x".repeat(1 << 20);
    let world = World::with(setup, move |_| {
        (0..24).fold(ScriptedTurn::nothing(), |turn, _| turn.and_text(&large))
    })
    .await;
    world.post("/v1/sessions", json!({"sessionId": "s"})).await;
    let path = "/v1/sessions/s/events?follow=true";
    let mut stalled = world.stream(path, None).await;
    let mut other = world.stream(path, None).await;
    world.say("s", "a").await;
    // The run ends, and another client has all of it, while the first one takes nothing.
    let mut got = Vec::new();
    while got
        .last()
        .is_none_or(|frame: &crate::world::Frame| frame.kind() != "complete")
    {
        got.push(other.next().await.unwrap());
    }
    let all = world.stored("s").await;
    assert!(payloads(&got) == all);
    loop {
        let metrics = world.get("/metrics").await.text;
        if metrics.contains("holodeck_slow_consumers_closed_total 1\n") {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut got = Vec::new();
    while let Some(frame) = stalled.next().await {
        got.push(frame);
    }
    assert!(got.len() < all.len(), "it was not behind");
    let last = got.last().and_then(|frame| frame.id);
    got.extend(world.stream("/v1/sessions/s/events", last).await.rest().await);
    assert!(payloads(&got) == all);
}
