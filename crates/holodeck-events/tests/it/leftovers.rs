//! Deletions that were cut off: what was promised as deleted is not served, and the next start continues.

use holodeck_events::{ApprovalAnswer, EventStore, Resolution, StoreError};

use crate::{
    backend_events::{ask, call, text},
    contract::{Subject, numbers_of, session_run},
};

/// More rows than one step deletes.
const PIECES: usize = 300;

/// The run and the approval of a session that is about to be deleted, with an open run and many rows.
struct Doomed {
    run_id: String,
    approval_id: String,
}

async fn prepare(subject: &Subject) -> Doomed {
    let mut run = subject.open(session_run("s")).await.unwrap();
    for event in [call("a", "f"), ask("a", "f")] {
        subject.store.append(run.observe(&event)).await.unwrap();
    }
    let pieces: Vec<_> = (0..PIECES).flat_map(|_| run.observe(&text("x"))).collect();
    subject.store.append(pieces).await.unwrap();
    let asked = subject.store.approvals(None, None).await.unwrap();
    subject.open(session_run("other")).await.unwrap();
    Doomed {
        run_id: run.run_id().to_owned(),
        approval_id: asked[0].request.approval_id.clone(),
    }
}

/// Nothing of the session is shown, and nothing can be done with it.
async fn check_gone(store: &dyn EventStore, doomed: &Doomed) {
    assert_eq!(store.session("s").await.unwrap(), None);
    assert_eq!(store.read_after("s", None).await.unwrap(), []);
    assert_eq!(store.run(&doomed.run_id).await.unwrap(), None);
    assert_eq!(store.approval(&doomed.approval_id).await.unwrap(), None);
    assert_eq!(store.approvals(None, None).await.unwrap(), []);
    assert_eq!(store.remembered_approvals("s").await.unwrap(), [""; 0]);
    let listed = store.sessions(None).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].session_id, "other");
    let not_found = |error: StoreError| matches!(error, StoreError::SessionNotFound { .. });
    assert!(not_found(store.subscribe("s", None).await.unwrap_err()));
    assert!(not_found(store.delete_session("s", true).await.unwrap_err()));
    assert!(not_found(
        store.fork_session("s", None, "t", None).await.unwrap_err()
    ));
    let answer = ApprovalAnswer::new(doomed.approval_id.as_str(), Resolution::Approve);
    let answered = store.resolve_approval(answer).await;
    assert!(
        matches!(answered, Err(StoreError::ApprovalNotFound { .. })),
        "{answered:?}"
    );
    assert_eq!(store.recover().await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_in_a_file_that_was_cut_off_goes_on_at_the_next_start() {
    let subject = Subject::sqlite().await;
    let doomed = prepare(&subject).await;
    let file = rusqlite::Connection::open(&subject.path).unwrap();
    // As a process that was killed after a first step leaves it.
    file.execute_batch(
        "UPDATE sessions SET deleted = 1, leftovers = 1, owner = NULL, agent = NULL WHERE session_id = 's';
         DELETE FROM events WHERE session = 1 AND event_index = 0;",
    )
    .unwrap();
    check_gone(&*subject.store, &doomed).await;
    let next = subject.open_file().await;
    check_gone(&next, &doomed).await;
    let rows = || -> i64 {
        let sql = "SELECT (SELECT count(*) FROM events WHERE session = 1)
            + (SELECT count(*) FROM runs WHERE session = 1) + (SELECT count(*) FROM approvals)
            + (SELECT count(*) FROM sessions WHERE leftovers = 1)";
        file.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    while rows() > 0 {
        tokio::task::yield_now().await;
    }
    check_gone(&next, &doomed).await;
    assert_eq!(numbers_of(&next.read_after("other", None).await.unwrap()), [0]);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_in_a_database_that_was_cut_off_goes_on_at_the_next_start() {
    let server = crate::postgres_server::PostgresServer::start();
    let subject = Subject::postgres(&server, "events").await;
    let doomed = prepare(&subject).await;
    server.run(
        "UPDATE events.holodeck_sessions SET deleted = true, leftovers = true, owner = NULL, agent = NULL
             WHERE session_id = 's'; DELETE FROM events.holodeck_events WHERE session = 1 AND event_index = 0",
    );
    check_gone(&*subject.store, &doomed).await;
    let next = subject.open_database().await;
    check_gone(&next, &doomed).await;
    let rows = || {
        server.ask(
            "SELECT (SELECT count(*) FROM events.holodeck_events WHERE session = 1)
             + (SELECT count(*) FROM events.holodeck_runs WHERE session = 1)
             + (SELECT count(*) FROM events.holodeck_approvals)
             + (SELECT count(*) FROM events.holodeck_sessions WHERE leftovers)",
        )
    };
    while rows() != "0" {
        tokio::task::yield_now().await;
    }
    check_gone(&next, &doomed).await;
    assert_eq!(numbers_of(&next.read_after("other", None).await.unwrap()), [0]);
}

/// In one file, whose writer is one thread.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_stored_while_a_long_session_is_deleted() {
    let subject = Subject::sqlite().await;
    let mut long = subject.open(session_run("long")).await.unwrap();
    for _ in 0..20 {
        let pieces: Vec<_> = (0..PIECES).flat_map(|_| long.observe(&text("x"))).collect();
        subject.store.append(pieces).await.unwrap();
    }
    let mut other = subject.open(session_run("other")).await.unwrap();
    let store = std::sync::Arc::clone(&subject.store);
    let mut deletion = tokio::spawn(async move { store.delete_session("long", true).await });
    let mut stored = 0;
    let deleted = loop {
        tokio::select! {
            biased;
            deleted = &mut deletion => break deleted.unwrap(),
            piece = subject.piece(&mut other, "y") => stored += piece.unwrap().len(),
        }
    };
    assert_eq!(deleted, Ok(()));
    assert!(stored >= 3, "{stored}");
    // The last one may be stored and not reported.
    assert!(subject.stored("other").await.len() > stored);
}
