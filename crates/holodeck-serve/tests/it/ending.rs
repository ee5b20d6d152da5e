//! Tests of stopping the server: running answers finish, or keep their text.

use std::{sync::Arc, time::Duration};

use holodeck_serve::{ServeOptions, conversation::RunRequest};
use holodeck_testkit::{Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{Setup, World};

async fn busy(drain: Duration) -> (World, Gate) {
    let gate = Gate::new();
    let inner = gate.clone();
    let setup = Setup {
        options: ServeOptions {
            drain,
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, move |_| {
        ScriptedTurn::nothing()
            .and_text("so far")
            .and_wait_for(&inner)
            .and_text(", and the end")
    })
    .await;
    (world, gate)
}

const LONG: Duration = Duration::from_mins(10);

#[tokio::test]
async fn runs_end_before_the_server_does() {
    let (world, gate) = busy(LONG).await;
    world.say("s", "a").await;
    let mut stream = world.stream("/v1/sessions/s/events?follow=true", None).await;
    stream.wait_for("message_chunk").await;
    world.stop();
    while world.get("/ready").await.status != 503 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.say("t", "b").await.problem(), (503, "CLOSING".to_owned()));
    // What is stored can be read until the end.
    assert_eq!(world.get("/v1/sessions/s").await.status, 200);
    gate.open();
    let rest = stream.rest().await;
    assert_eq!(rest.last().unwrap().json()["reason"], "success");
    world.ended.await.unwrap();
}

#[tokio::test]
async fn a_second_signal_stops_runs_and_keeps_their_text() {
    let (world, _gate) = busy(LONG).await;
    world.say("s", "a").await;
    let mut stream = world.stream("/v1/sessions/s/events?follow=true", None).await;
    stream.wait_for("message_chunk").await;
    world.stop();
    world.stop();
    let rest = stream.rest().await;
    let text = |kind: &str| rest.iter().find(|frame| frame.kind() == kind).unwrap().json();
    assert_eq!(text("message")["content"], "so far");
    assert_eq!(text("message")["partial"], true);
    assert_eq!(rest.last().unwrap().json()["reason"], "user_cancelled");
    let store = world.store.clone();
    world.ended.await.unwrap();
    assert_eq!(store.session("s").await.unwrap().unwrap().open_run, None);
    let late = world.service.start(RunRequest::new("t", "b"), None).await;
    assert!(late.is_err());
}

#[tokio::test]
async fn runs_that_take_too_long_are_stopped() {
    let (world, _gate) = busy(Duration::from_millis(10)).await;
    world.say("s", "a").await;
    world.stop();
    world.ended.await.unwrap();
    let stored = world.store.read_after("s", None).await.unwrap();
    assert!(stored.last().unwrap().json().contains("user_cancelled"));
}

#[tokio::test]
async fn answers_to_openai_clients_end_before_the_server_does() {
    let messages = json!([{"role": "user", "content": "a"}]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": messages})),
        (
            "/v1/chat/completions",
            json!({"messages": messages, "stream": true}),
        ),
        ("/v1/responses", json!({"input": "a"})),
        ("/v1/responses", json!({"input": "a", "stream": true})),
        ("/v1/responses", json!({"input": "a", "store": false})),
    ] {
        for headers in [&[][..], &[("idempotency-key", "k")]] {
            let (world, gate) = busy(LONG).await;
            let world = Arc::new(world);
            let mut body = body.clone();
            body["model"] = json!("helper");
            let request = tokio::spawn({
                let (world, body) = (Arc::clone(&world), body.to_string());
                async move { world.send(Method::POST, path, headers, &body).await }
            });
            while !world
                .get("/metrics")
                .await
                .text
                .contains("holodeck_runs_active 1")
            {
                tokio::task::yield_now().await;
            }
            world.stop();
            while world.get("/ready").await.status != 503 {
                tokio::task::yield_now().await;
            }
            let refused = world.send(Method::POST, path, &[], &body.to_string()).await;
            assert_eq!(refused.status, 503, "{refused:?}");
            gate.open();
            let reply = request.await.unwrap();
            assert_eq!(reply.status, 200, "{path} {body} {reply:?}");
            assert!(
                reply.text.contains(", and the end") && !reply.text.contains("failed"),
                "{path} {body} {reply:?}"
            );
            Arc::into_inner(world).unwrap().ended.await.unwrap();
        }
    }
}

#[tokio::test]
async fn answers_to_openai_clients_that_take_too_long_are_stopped_and_keep_their_text() {
    let (world, _gate) = busy(Duration::from_millis(10)).await;
    let body = json!({"model": "helper", "input": "a", "stream": true});
    let headers = [("idempotency-key", "k")];
    let mut stream = world
        .open(Method::POST, "/v1/responses", &headers, &body.to_string())
        .await;
    stream.wait_for("response.output_text.delta").await;
    world.stop();
    let rest = stream.rest().await;
    assert_eq!(rest.last().unwrap().kind(), "response.failed");
    let store = world.store.clone();
    world.ended.await.unwrap();
    let sessions = store.sessions_page(None, None, 9).await.unwrap();
    assert_eq!((sessions.len(), &sessions[0].open_run), (1, &None));
    let stored = store.read_after(&sessions[0].session_id, None).await.unwrap();
    assert!(stored.last().unwrap().json().contains("user_cancelled"));
}
