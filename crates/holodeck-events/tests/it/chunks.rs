//! Pieces of text that are collected before they are stored.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_stream::stream;
use holodeck_backend_api::StopReason;
use holodeck_events::{Delivery, EventStore as _, NewRun, Recording, StoredEvent};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use tokio::time::Instant;

use crate::{
    backend_events::{Emitted, answered, call, result, stop, text, thinking},
    session::sources,
    storing::Faulty,
};

const AT_ONCE: Duration = Duration::ZERO;
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns the deliveries, with the milliseconds since the start. Each write takes `delay`.
async fn record(
    events: Vec<(u64, Emitted)>,
    interval: Duration,
    delay: Duration,
) -> (Vec<(u128, String)>, Vec<StoredEvent>) {
    let store = Faulty::slow(delay);
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
async fn the_first_piece_is_stored_at_once_and_those_that_come_meanwhile_together() {
    let emitted = answered([
        thinking("hm "),
        thinking("so"),
        text("a"),
        text("b"),
        text("c"),
        text("d"),
        stop(StopReason::EndTurn, "msg_1"),
    ]);
    let waits = [0, 5, 5, 5, 100, 5, 100];
    let (delivered, _) = record(timed(&waits, emitted), AT_ONCE, Duration::from_millis(30)).await;
    let expected = [
        (0, "user_message_confirmed"),
        // Written until 30.
        (30, "thinking_chunk hm "),
        (60, "thinking_chunk so"),
        (60, "thinking_complete"),
        (60, "message_chunk ab"),
        (145, "message_chunk c"),
        (175, "message_chunk d"),
        (250, "thinking"),
        (250, "message"),
        (280, "complete"),
    ];
    assert_eq!(delivered, expected.map(|(at, what)| (at, what.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn pieces_wait_for_nothing_where_a_write_takes_no_time() {
    let emitted = answered([text("a"), text("b"), text("c")]);
    let (delivered, _) = record(timed(&[3, 4, 5], emitted), AT_ONCE, Duration::ZERO).await;
    let expected = [
        (0, "user_message_confirmed"),
        (3, "message_chunk a"),
        (7, "message_chunk b"),
        (12, "message_chunk c"),
    ];
    assert_eq!(delivered[..4], expected.map(|(at, what)| (at, what.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn with_an_interval_the_first_piece_waits_for_nothing_and_later_ones_for_its_end() {
    let emitted = answered([text("a"), text("b"), text("c"), text("d"), text("e")]);
    let waits = [3, 4, 5, 100, 1, 100];
    let (delivered, _) = record(timed(&waits, emitted), INTERVAL, Duration::ZERO).await;
    let expected = [
        (0, "user_message_confirmed"),
        (3, "message_chunk a"),
        (23, "message_chunk bc"),
        (112, "message_chunk d"),
        (132, "message_chunk e"),
    ];
    assert_eq!(delivered[..5], expected.map(|(at, what)| (at, what.to_owned())));
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
    let (delivered, stored) = record(timed(&[], emitted), INTERVAL, Duration::ZERO).await;
    assert!(delivered.iter().all(|(at, _)| *at == 0), "{delivered:?}");
    let indices: Vec<_> = stored.iter().map(StoredEvent::index).collect();
    assert!(indices.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn much_text_does_not_wait_for_the_interval() {
    let emitted = answered([text("-"), text(&"x".repeat(4095)), text("y"), text("z")]);
    let (delivered, _) = record(timed(&[0, 1, 1, 1, 50], emitted), INTERVAL, Duration::ZERO).await;
    let times: Vec<_> = delivered.iter().map(|(at, _)| *at).collect();
    assert_eq!(times[..4], [0, 0, 2, 22]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_holds_up_the_stream_instead_of_filling_memory() {
    let begin = Instant::now();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let store = Faulty::slow(Duration::from_secs(1));
    let (clock, ids) = sources();
    let events = Box::pin(stream! {
        for _ in 0..8 {
            seen.lock().unwrap().push(begin.elapsed().as_secs());
            yield Ok(text(&"x".repeat(3000)));
        }
        for event in answered([]) {
            yield event;
        }
    });
    let recording = Recording::new(&store, &clock, &ids);
    recording.record(NewRun::new("s", "go"), events).await.unwrap();
    // The first is written alone, then two at a time.
    assert_eq!(*asked.lock().unwrap(), [0, 0, 0, 1, 1, 2, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_pieces_are_all_delivered_before_a_failure() {
    let mut emitted: Vec<Emitted> = vec![Ok(text("cut "))];
    emitted.push(Ok(text("off")));
    emitted.push(Err(holodeck_backend_api::BackendError::ended_early()));
    let (delivered, _) = record(timed(&[], emitted), INTERVAL, Duration::ZERO).await;
    let delivered: Vec<_> = delivered.into_iter().map(|(_, what)| what).collect();
    assert_eq!(
        delivered,
        [
            "user_message_confirmed",
            "message_chunk cut ",
            "message_chunk off",
            "message",
            "error"
        ]
    );
}
