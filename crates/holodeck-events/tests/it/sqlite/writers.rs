//! Tests of two writers on one file: numbering, leases, and delivery between them.

use std::{sync::Arc, time::Duration};

use holodeck_events::{EventStore, SqliteOptions, SqliteStore, StoreError, StoredEvent, View};
use pretty_assertions::assert_eq;
use rusqlite::Connection;

use crate::{
    backend_events::{answered, call, result, text},
    contract::{Subject, numbers_of, session_run},
    session::check,
};

/// Two stores in one file, as two processes have them.
struct Pair {
    one: Subject,
    two: SqliteStore,
}

impl Pair {
    async fn open() -> Self {
        let one = Subject::sqlite().await;
        let two = one.open_file().await;
        Self { one, two }
    }

    /// As much time as a writer may be silent.
    fn pass_a_lease(&self) {
        self.one.clock.advance(SqliteOptions::default().lease);
    }
}

fn nobody() -> Vec<String> {
    Vec::new()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_writers_of_one_file_number_without_a_gap() {
    let Pair { one, two } = Pair::open().await;
    let one = Arc::new(one);
    let stores: [Arc<dyn EventStore>; 2] = [Arc::clone(&one.store), Arc::new(two)];
    let mut writers = Vec::new();
    for (number, store) in stores.into_iter().enumerate() {
        let subject = Arc::clone(&one);
        writers.push(tokio::spawn(async move {
            for step in 0..150 {
                // Their own sessions, and runs of both in a common one.
                for session in [format!("own-{number}"), "common".to_owned()] {
                    let (mut run, first) = subject.draft(session_run(&session));
                    let mut first = store.open_run(first.clone()).await;
                    while let Err(StoreError::RunInProgress { process, .. }) = &first {
                        assert_eq!((session.as_str(), *process), ("common", Some(std::process::id())));
                        let (next, draft) = subject.draft(session_run(&session));
                        run = next;
                        first = store.open_run(draft).await;
                    }
                    first.unwrap();
                    let id = format!("call_{number}_{step}");
                    let events = answered([call(&id, "f"), result(&id, "f", "1"), text("x")]);
                    for event in events {
                        store.append(run.observe(&event.unwrap())).await.unwrap();
                    }
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for (session, runs) in [("own-0", 150), ("own-1", 150), ("common", 300)] {
        let stored = one.stored(session).await;
        let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
        assert_eq!(check(View::Live, &events), []);
        let numbers = numbers_of(&stored);
        assert_eq!(numbers, (0..4 * runs).collect::<Vec<u64>>());
        let indices = stored.iter().map(StoredEvent::index);
        assert!(indices.eq(0..6 * runs));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_receives_what_another_writer_stores() {
    let Pair { one, two } = Pair::open().await;
    let mut run = one.open(session_run("s")).await.unwrap();
    let mut subscription = two.subscribe("s", None).await.unwrap();
    for _ in 0..3 {
        subscription.next().await.unwrap().unwrap();
        one.piece(&mut run, "x").await.unwrap();
    }
    one.end(&mut run).await.unwrap();
    let (mut own, first) = one.draft(session_run("s"));
    two.open_run(first).await.unwrap();
    two.append(own.observe(&text("y"))).await.unwrap();
    for index in 3..8 {
        let event = subscription.next().await.unwrap().unwrap();
        assert_eq!(event.index(), index);
    }
    // Its end too.
    one.store.delete_session("s", true).await.unwrap();
    assert_eq!(subscription.next().await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_writer_keeps_its_run() {
    let pair = Pair::open().await;
    let Pair { one, two } = &pair;
    let mut run = one.open(session_run("s")).await.unwrap();
    let (_, first) = one.draft(session_run("s"));
    let busy = StoreError::RunInProgress {
        session_id: "s".to_owned(),
        process: Some(std::process::id()),
    };
    assert_eq!(two.open_run(first).await, Err(busy.clone()));
    assert_eq!(two.delete_session("s", false).await, Err(busy));
    assert_eq!(two.recover().await.unwrap(), nobody());
    let foreign = two.append(run.observe(&text("x"))).await;
    assert!(
        matches!(foreign, Err(StoreError::StaleOwner { .. })),
        "{foreign:?}"
    );
    // Nor can another writer abandon it.
    two.abandon("s", run.run_id());
    assert_eq!(two.recover().await.unwrap(), nobody());
    // A run of this writer begins with a beat, so the observer begins again.
    pair.pass_a_lease();
    one.open(session_run("t")).await.unwrap();
    assert_eq!(two.recover().await.unwrap(), nobody());
    one.piece(&mut run, "y").await.unwrap();
    one.end(&mut run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_was_silent_for_a_lease_loses_its_runs() {
    let pair = Pair::open().await;
    let Pair { one, two } = &pair;
    let mut run = one.open(session_run("s")).await.unwrap();
    one.piece(&mut run, "half").await.unwrap();
    // The lease is counted from when the observer first looks.
    pair.pass_a_lease();
    assert_eq!(two.recover().await.unwrap(), nobody());
    pair.pass_a_lease();
    assert_eq!(two.recover().await.unwrap(), [run.run_id()]);
    let log = one.stored("s").await;
    for _ in 0..2 {
        let late = one.piece(&mut run, "late").await;
        assert!(matches!(late, Err(StoreError::StaleOwner { .. })), "{late:?}");
    }
    let late = one.end(&mut run).await;
    assert!(matches!(late, Err(StoreError::StaleOwner { .. })), "{late:?}");
    one.store.abandon("s", run.run_id());
    assert_eq!(one.store.recover().await.unwrap(), nobody());
    assert_eq!(one.stored("s").await, log);
    let events: Vec<_> = log.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
    one.open(session_run("s")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_writer_loses_its_runs_at_once() {
    let Pair { one, two } = Pair::open().await;
    let (run, first) = one.draft(session_run("s"));
    two.open_run(first).await.unwrap();
    two.close().await.unwrap();
    assert_eq!(one.store.recover().await.unwrap(), [run.run_id()]);
    assert_eq!(one.store.recover().await.unwrap(), nobody());
    let locks = std::fs::read_dir(one.path.with_file_name("events.db-writers")).unwrap();
    assert_eq!(locks.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_without_a_row_that_holds_its_lock_keeps_its_run() {
    let pair = Pair::open().await;
    let Pair { one, two } = &pair;
    let mut run = one.open(session_run("s")).await.unwrap();
    let other = Connection::open(&one.path).unwrap();
    other.execute("DELETE FROM writers", []).unwrap();
    assert_eq!(two.recover().await.unwrap(), nobody());
    pair.one.clock.advance(Duration::from_secs(1));
    assert_eq!(two.recover().await.unwrap(), nobody());
    one.piece(&mut run, "x").await.unwrap();
    // Silent for a lease, it loses the run as any other.
    pair.pass_a_lease();
    assert_eq!(two.recover().await.unwrap(), [run.run_id()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_ends_no_lease() {
    let Pair { one, two } = Pair::open().await;
    let mut run = one.open(session_run("s")).await.unwrap();
    for jump in [86_400, -172_800] {
        assert_eq!(two.recover().await.unwrap(), nobody());
        one.clock.change_time_of_day(jump);
        assert_eq!(two.recover().await.unwrap(), nobody());
    }
    one.end(&mut run).await.unwrap();
}
