//! Tests of several messages at once in one conversation: refused, queued, replacing, and repeated ones.

use std::sync::Arc;

use holodeck_chat::{
    Concurrency, RunError, RunRequest, ServiceOptions,
    events::{MemoryStore, StoreError},
};
use holodeck_testkit::{Gate, ScriptedTurn};
use pretty_assertions::assert_eq;

use crate::world::World;

/// A conversation whose first answer waits for the gate.
fn busy(concurrency: Concurrency) -> (World, Gate) {
    let gate = Gate::new();
    let script_gate = gate.clone();
    let options = ServiceOptions {
        concurrency,
        ..ServiceOptions::default()
    };
    let world = World::with(Arc::new(MemoryStore::new()), options, move |asked| {
        match asked.index {
            0 => ScriptedTurn::nothing()
                .and_text("first")
                .and_wait_for(&script_gate),
            _ => ScriptedTurn::text(&format!("re: {}", asked.message)),
        }
    });
    (world, gate)
}

#[tokio::test]
async fn a_message_that_is_sent_ten_times_is_answered_once() {
    let (world, gate) = busy(Concurrency::Reject);
    let request = || RunRequest {
        client_message_id: Some("c-1".to_owned()),
        ..RunRequest::new("s", "one")
    };
    let attempts = (0..10).map(|_| world.service.start(request(), None));
    let started = futures::future::join_all(attempts).await;
    let first: Vec<_> = started.iter().filter_map(|run| run.as_ref().ok()).collect();
    assert_eq!(first.len(), 1);
    for repeated in started.iter().filter_map(|run| run.as_ref().err()) {
        let RunError::Store(StoreError::AlreadySent { run_id }) = repeated else {
            panic!("{repeated:?}")
        };
        assert_eq!(run_id, first[0].run_id());
    }
    let other = RunRequest {
        message: "two".to_owned(),
        ..request()
    };
    let other = world.service.start(other, None).await.unwrap_err();
    assert!(matches!(
        other,
        RunError::Store(StoreError::MessageIdReused { .. })
    ));
    gate.open();
    world.service.drain().await;
    assert_eq!(world.questions(), 1);
}

#[tokio::test]
async fn a_second_message_is_refused() {
    let (world, gate) = busy(Concurrency::Reject);
    let mut first = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    let second = world.service.start(RunRequest::new("s", "two"), None).await;
    assert!(matches!(
        second,
        Err(RunError::Store(StoreError::RunInProgress { .. }))
    ));
    // Another conversation is free.
    let other = world.service.run_graph(RunRequest::new("t", "three"), None).await;
    assert_eq!(other.unwrap().response, "re: three");
    gate.open();
    assert_eq!(first.finish().await.unwrap().response, "first");
    assert_eq!(world.say("two").await, "re: two");
}

#[tokio::test]
async fn further_messages_wait_in_their_order() {
    let (world, gate) = busy(Concurrency::Enqueue);
    let mut runs = Vec::new();
    for message in 0..17 {
        let request = RunRequest::new("s", message.to_string());
        runs.push(world.service.start(request, None).await.unwrap());
    }
    let full = world.service.start(RunRequest::new("s", "more"), None).await;
    assert!(
        matches!(full, Err(RunError::QueueFull { waiting: 16, .. })),
        "{full:?}"
    );
    // One of those that wait is withdrawn: it is never asked, and nothing of it is stored.
    runs[3].cancel();
    assert!(matches!(runs[3].finish().await, Err(RunError::Refused { .. })));
    gate.open();
    for (number, run) in runs.iter_mut().enumerate().filter(|(number, _)| *number != 3) {
        let answer = run.finish().await.unwrap().response;
        assert_eq!(
            answer,
            if number == 0 {
                "first".to_owned()
            } else {
                format!("re: {number}")
            }
        );
    }
    let events = world.events().await;
    let asked: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.event().body {
            holodeck_chat::model::events::EventBody::UserMessageConfirmed(message) => {
                Some(message.content.clone())
            }
            _ => None,
        })
        .collect();
    let expected: Vec<_> = (0..17).filter(|n| *n != 3).map(|n| n.to_string()).collect();
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_second_message_stops_the_first() {
    let (world, _gate) = busy(Concurrency::Interrupt);
    let mut first = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    world.wait_for("message_chunk").await;
    assert_eq!(world.say("two").await, "re: two");
    assert!(matches!(first.finish().await, Err(RunError::Execution(_))));
    assert_eq!(world.history(), ["user: one", "stopped: first"]);
}

#[tokio::test]
async fn closing_stops_and_stores_what_runs() {
    let (world, _gate) = busy(Concurrency::Reject);
    let mut run = world
        .service
        .start(RunRequest::new("s", "one"), None)
        .await
        .unwrap();
    world.wait_for("message_chunk").await;
    world.service.close().await;
    assert!(run.finish().await.is_err());
    assert!(world.wait_for("complete").await.json().contains("user_cancelled"));
}
