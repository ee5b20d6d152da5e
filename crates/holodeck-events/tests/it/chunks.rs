//! Pieces of text that are collected before they are stored.

use std::{sync::Mutex, time::Duration};

use async_stream::stream;
use holodeck_backend_api::StopReason;
use holodeck_events::{Delivery, EventStore as _, MemoryStore, NewRun, Recording, StoredEvent};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use tokio::time::Instant;

use crate::{
    backend_events::{Emitted, answered, call, result, stop, text, thinking},
    session::sources,
};

const INTERVAL: Duration = Duration::from_millis(20);

/// Returns the deliveries, with the milliseconds since the start.
async fn record(events: Vec<(u64, Emitted)>, interval: Duration) -> (Vec<(u128, String)>, Vec<StoredEvent>) {
    let store = MemoryStore::new();
    let (clock, ids) = sources();
    let begin = Instant::now();
    let delivered = Mutex::new(Vec::new());
    let sink = |event: Delivery| {
        let Delivery::Stored(event) = event else {
            panic!("{event:?}")
        };
        let what = match &event.event().body {
            EventBody::MessageChunk(chunk) | EventBody::ThinkingChunk(chunk) => {
                format!("{} {}", event.event().body.kind(), chunk.content)
            }
            body => body.kind().to_owned(),
        };
        delivered
            .lock()
            .unwrap()
            .push((begin.elapsed().as_millis(), what));
    };
    let events = Box::pin(stream! {
        for (wait, event) in events {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            yield event;
        }
    });
    let recording = Recording::new(&store, &clock, &ids)
        .with_sink(&sink)
        .with_chunk_interval(interval);
    recording.record(NewRun::new("s", "go"), events).await.unwrap();
    let stored = store.read_after("s", None).await.unwrap();
    (delivered.into_inner().unwrap(), stored)
}

fn timed(waits: &[u64], emitted: Vec<Emitted>) -> Vec<(u64, Emitted)> {
    let waits = waits.iter().copied().chain(std::iter::repeat(0));
    waits.zip(emitted).collect()
}

#[tokio::test(start_paused = true)]
async fn pieces_that_arrive_within_the_interval_are_stored_together() {
    let emitted = answered([
        thinking("hm "),
        thinking("so"),
        text("a"),
        text("b"),
        text("c"),
        stop(StopReason::EndTurn, "msg_1"),
    ]);
    let (delivered, _) = record(timed(&[0, 5, 0, 0, 100, 100], emitted), INTERVAL).await;
    let expected = [
        (0, "user_message_confirmed"),
        (20, "thinking_chunk hm so"),
        (20, "thinking_complete"),
        (20, "message_chunk ab"),
        (125, "message_chunk c"),
        (205, "thinking"),
        (205, "message"),
        (205, "complete"),
    ];
    assert_eq!(delivered, expected.map(|(at, what)| (at, what.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_piece_waits_for_nothing() {
    let emitted = answered([
        text("let me see"),
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("a", "f", "1"),
        text("done"),
        stop(StopReason::EndTurn, "msg_2"),
    ]);
    let (delivered, stored) = record(timed(&[], emitted), INTERVAL).await;
    assert!(delivered.iter().all(|(at, _)| *at == 0), "{delivered:?}");
    let indices: Vec<_> = stored.iter().map(StoredEvent::index).collect();
    assert!(indices.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn much_text_does_not_wait() {
    let emitted = answered([text(&"x".repeat(4095)), text("y"), text("z")]);
    let (delivered, _) = record(timed(&[0, 1, 1, 50], emitted), INTERVAL).await;
    let times: Vec<_> = delivered.iter().map(|(at, _)| *at).collect();
    assert_eq!(times[..3], [0, 1, 22]);
}

#[tokio::test(start_paused = true)]
async fn the_pieces_are_all_delivered_before_a_failure() {
    let mut emitted: Vec<Emitted> = vec![Ok(text("cut "))];
    emitted.push(Ok(text("off")));
    emitted.push(Err(holodeck_backend_api::BackendError::ended_early()));
    let (delivered, _) = record(timed(&[], emitted), INTERVAL).await;
    let delivered: Vec<_> = delivered.into_iter().map(|(_, what)| what).collect();
    assert_eq!(
        delivered,
        [
            "user_message_confirmed",
            "message_chunk cut off",
            "message",
            "error"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_each_piece_is_an_event() {
    let (delivered, _) = record(timed(&[], answered([text("a"), text("b")])), Duration::ZERO).await;
    let pieces = delivered
        .iter()
        .filter(|(_, what)| what.starts_with("message_chunk"));
    assert_eq!(pieces.count(), 2);
}
