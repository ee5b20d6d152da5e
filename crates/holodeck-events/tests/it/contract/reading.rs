//! The contract of reading: replays equal the first delivery, from any cursor and in pages.

use holodeck_backend_api::StopReason;
use holodeck_events::{StoreError, StoredEvent, replay_violations};
use pretty_assertions::assert_eq;

use super::{Subject, each_store, session_run};
use crate::backend_events::{Emitted, answered, call, result, stop, text, thinking};

each_store! {
    every_replay_is_what_was_delivered
    a_client_cut_anywhere_receives_the_rest_once
    a_cursor_must_be_in_the_session
    pages_end_at_a_number_of_events_or_bytes
    the_head_is_the_last_event
}

fn emitted() -> Vec<Emitted> {
    answered([
        thinking("hm"),
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("a", "f", "1"),
        text("do"),
        text("ne"),
        stop(StopReason::EndTurn, "msg_2"),
    ])
}

fn json(events: &[StoredEvent]) -> Vec<&str> {
    events.iter().map(StoredEvent::json).collect()
}

async fn every_replay_is_what_was_delivered(subject: Subject) {
    let delivered = subject.record(session_run("s"), emitted()).await;
    for _ in 0..100 {
        let replay = subject.stored("s").await;
        assert_eq!(replay, delivered);
        assert_eq!(json(&replay), json(&delivered));
    }
}

async fn a_client_cut_anywhere_receives_the_rest_once(subject: Subject) {
    subject.start("s", None).await.unwrap();
    for _ in 0..3 {
        subject.record(session_run("s"), emitted()).await;
    }
    let all = subject.stored("s").await;
    for cut in 0..=all.len() {
        let (before, rest) = all.split_at(cut);
        let after = before.last().map(StoredEvent::index);
        let mut subscription = subject.store.subscribe("s", after).await.unwrap();
        let mut received = Vec::new();
        for _ in rest {
            received.push(subscription.next().await.unwrap().unwrap());
        }
        assert_eq!(json(&received), json(rest));
        assert_eq!(replay_violations(&json(&all), &json(&received)).unwrap(), []);
    }
}

async fn a_cursor_must_be_in_the_session(subject: Subject) {
    subject.record(session_run("s"), emitted()).await;
    let all = subject.stored("s").await;
    let head = all.last().map(StoredEvent::index);
    for cursor in [head.unwrap() + 1, u64::MAX] {
        let ahead = subject.store.subscribe("s", Some(cursor)).await.err();
        assert_eq!(ahead, Some(StoreError::CursorAhead { cursor, head }));
        assert_eq!(subject.store.read_after("s", Some(cursor)).await.unwrap(), []);
    }
    let unknown = subject.store.subscribe("unknown", None).await.err();
    assert!(matches!(unknown, Some(StoreError::SessionNotFound { .. })));
    let mut whole = subject.store.subscribe("s", None).await.unwrap();
    assert_eq!(whole.next().await.unwrap().as_ref(), all.first());
}

async fn pages_end_at_a_number_of_events_or_bytes(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let large = "x".repeat(6_000);
    for piece in ["a", "b", &large, &large, &large, &large, "c"] {
        subject.piece(&mut run, piece).await.unwrap();
    }
    let all = subject.stored("s").await;
    let page = async |after, limit| {
        let page = subject.store.read_page("s", after, limit).await.unwrap();
        page.iter().map(StoredEvent::index).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, [0, 1]);
    assert_eq!(page(Some(1), 2).await, [2, 3]);
    // A page without an event would end a replay.
    assert_eq!(page(None, 0).await, [0]);
    assert_eq!(page(Some(2), 100).await, [3, 4]);
    assert_eq!(page(Some(4), 100).await, [5, 6, 7]);
    assert_eq!(page(Some(7), 100).await, Vec::<u64>::new());
    // One event that is larger than a page.
    let huge = "y".repeat(3 << 20);
    subject.piece(&mut run, &huge).await.unwrap();
    assert_eq!(page(Some(6), 100).await, [7]);
    assert_eq!(page(Some(7), 100).await, [8]);
    assert_eq!(all.len(), 8);
    assert_eq!(subject.stored("s").await.len(), 9);
    assert_eq!(subject.store.read_page("unknown", None, 5).await.unwrap(), []);
}

async fn the_head_is_the_last_event(subject: Subject) {
    assert_eq!(subject.store.session("s").await.unwrap(), None);
    let mut run = subject.open(session_run("s")).await.unwrap();
    for expected in 0..4 {
        let info = subject.store.session("s").await.unwrap().unwrap();
        assert_eq!(info.head, Some(expected));
        subject.piece(&mut run, "x").await.unwrap();
    }
}
