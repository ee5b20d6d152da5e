//! Tests of stopping the server: running answers finish, or keep their text.

use std::time::Duration;

use holodeck_serve::{ServeOptions, conversation::RunRequest};
use holodeck_testkit::{Gate, ScriptedTurn};
use pretty_assertions::assert_eq;

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
