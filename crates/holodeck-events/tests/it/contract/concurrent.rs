//! The contract of subscriptions: no gap, the same order for all, and no waiting for slow readers.

use std::sync::Arc;

use holodeck_events::{StoredEvent, Subscription};
use pretty_assertions::assert_eq;

use super::{Subject, each_store, session_run};

each_store! {
    a_client_that_joins_during_appends_has_no_gap
    a_stalled_reader_receives_all_and_delays_none
    all_clients_receive_the_same_in_the_same_order
    a_subscription_waits_for_the_next_event
}

/// Everything up to the end of a run.
async fn until_end(mut subscription: Subscription) -> Vec<StoredEvent> {
    let mut received = Vec::new();
    loop {
        let event = subscription.next().await.unwrap().unwrap();
        let is_end = event.event().body.is_terminal();
        received.push(event);
        if is_end {
            return received;
        }
    }
}

async fn a_client_that_joins_during_appends_has_no_gap(subject: Subject) {
    let subject = Arc::new(subject);
    let mut run = subject.open(session_run("s")).await.unwrap();
    let (progress, mut at) = tokio::sync::watch::channel(0);
    let writer = {
        let subject = Arc::clone(&subject);
        tokio::spawn(async move {
            for step in 1..=3_000 {
                subject.piece(&mut run, "x").await.unwrap();
                progress.send_replace(step);
            }
            run
        })
    };
    let mut readers = Vec::new();
    for join in (0..3_000).step_by(150) {
        at.wait_for(|step| *step >= join).await.unwrap();
        // From the start, from somewhere before the head, and from the head.
        let head = subject.store.session("s").await.unwrap().unwrap().head.unwrap();
        for after in [None, Some(head / 2), Some(head)] {
            let subscription = subject.store.subscribe("s", after).await.unwrap();
            readers.push((after, tokio::spawn(until_end(subscription))));
        }
    }
    // Only now: who joins after the end would wait for the next run.
    let mut run = writer.await.unwrap();
    subject.end(&mut run).await.unwrap();
    let all = subject.stored("s").await;
    assert_eq!(all.len(), 3_003);
    for (after, reader) in readers {
        let expected = all.iter().filter(|event| Some(event.index()) > after);
        let expected: Vec<_> = expected.cloned().collect();
        assert_eq!(reader.await.unwrap(), expected, "after {after:?}");
    }
}

async fn a_stalled_reader_receives_all_and_delays_none(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let mut stalled = subject.store.subscribe("s", None).await.unwrap();
    let first = stalled.next().await.unwrap().unwrap();
    let reader = tokio::spawn(until_end(subject.store.subscribe("s", None).await.unwrap()));
    for _ in 0..2_000 {
        subject.piece(&mut run, "x").await.unwrap();
    }
    subject.end(&mut run).await.unwrap();
    let all = subject.stored("s").await;
    assert_eq!(reader.await.unwrap(), all);
    let rest = until_end(stalled).await;
    assert_eq!([vec![first], rest].concat(), all);
}

async fn all_clients_receive_the_same_in_the_same_order(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..20 {
        let subscription = subject.store.subscribe("s", None).await.unwrap();
        readers.push(tokio::spawn(until_end(subscription)));
    }
    for _ in 0..200 {
        subject.piece(&mut run, "x").await.unwrap();
    }
    subject.end(&mut run).await.unwrap();
    let all = subject.stored("s").await;
    for reader in readers {
        assert_eq!(reader.await.unwrap(), all);
    }
}

async fn a_subscription_waits_for_the_next_event(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let mut subscription = subject.store.subscribe("s", Some(0)).await.unwrap();
    for _ in 0..3 {
        let stored = subject.piece(&mut run, "x").await.unwrap();
        let received = subscription.next().await.unwrap().unwrap();
        assert_eq!([received], stored[..]);
        // A caller that stops waiting loses nothing.
        let impatient = futures::FutureExt::now_or_never(subscription.next());
        assert!(impatient.is_none());
    }
}
