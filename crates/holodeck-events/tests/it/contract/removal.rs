//! The contract of deletion and retention: nothing of a deleted session remains, and nothing unfinished is removed.

use std::time::Duration;

use holodeck_backend_api::StopReason;
use holodeck_events::{NewRun, Retention, StoreError, StoredEvent, View};
use pretty_assertions::assert_eq;

use super::{Subject, each_store, numbers_of, session_run};
use crate::{
    backend_events::{answered, stop, text},
    session::check,
};

each_store! {
    a_deleted_session_is_gone_and_its_id_is_not_used_again
    an_id_is_taken_for_all_but_its_user_also_after_its_deletion
    a_session_with_an_open_run_is_deleted_only_by_force
    a_deleted_session_ends_its_subscriptions
    pieces_are_swept_after_the_resume_window
    old_sessions_are_swept
    a_sweep_keeps_what_is_not_over
    a_sweep_reads_the_clock_of_the_store
}

const MINUTE: Duration = Duration::from_mins(1);

fn retention(resume_window: Duration, sessions: Option<Duration>) -> Retention {
    Retention {
        resume_window,
        sessions,
    }
}

async fn recorded(subject: &Subject, session: &str) {
    let emitted = answered([text("a"), text("b"), stop(StopReason::EndTurn, "m")]);
    subject.record(session_run(session), emitted).await;
}

async fn a_deleted_session_is_gone_and_its_id_is_not_used_again(subject: Subject) {
    recorded(&subject, "s").await;
    recorded(&subject, "other").await;
    subject.store.delete_session("s", false).await.unwrap();
    assert_eq!(subject.store.session("s").await.unwrap(), None);
    assert_eq!(subject.stored("s").await, []);
    assert_eq!(subject.store.sessions(None).await.unwrap().len(), 1);
    let deleted = StoreError::SessionDeleted {
        session_id: "s".to_owned(),
    };
    assert_eq!(subject.open(session_run("s")).await.err(), Some(deleted.clone()));
    assert_eq!(subject.start("s", None).await, Err(deleted.to_string()));
    let not_found = Err(StoreError::SessionNotFound {
        session_id: "s".to_owned(),
    });
    assert_eq!(subject.store.delete_session("s", true).await, not_found);
    assert!(subject.store.subscribe("s", None).await.is_err());
    assert_eq!(subject.stored("other").await.len(), 5);
}

async fn an_id_is_taken_for_all_but_its_user_also_after_its_deletion(subject: Subject) {
    let of_alice = NewRun {
        user_id: Some("alice".to_owned()),
        ..session_run("s")
    };
    let ended = || answered([text("a"), stop(StopReason::EndTurn, "m")]);
    subject.record(of_alice, ended()).await;
    // Without an owner, it is of no user.
    recorded(&subject, "free").await;
    // Named, and without a message yet.
    subject.start("named", Some("alice")).await.unwrap();
    let check = async |session: &str, of_alice: bool, of_bob: bool| {
        for (user, taken) in [("alice", of_alice), ("bob", of_bob)] {
            let found = subject.store.is_taken(session, user).await;
            assert_eq!(found, Ok(taken), "{session} {user}");
        }
    };
    for round in 0..2 {
        check("s", false, true).await;
        check("named", false, true).await;
        check("free", true, true).await;
        check("unknown", false, false).await;
        check("", false, false).await;
        if round == 0 {
            for session in ["s", "named", "free"] {
                subject.store.delete_session(session, false).await.unwrap();
            }
            // What remains of its events is removed in steps.
            subject.store.sweep(retention(MINUTE, None)).await.unwrap();
        }
    }
}

async fn a_session_with_an_open_run_is_deleted_only_by_force(subject: Subject) {
    let run = NewRun {
        run_id: Some("r".to_owned()),
        ..session_run("s")
    };
    let mut open = subject.open(run).await.unwrap();
    let refused = subject.store.delete_session("s", false).await;
    assert!(
        matches!(refused, Err(StoreError::RunInProgress { .. })),
        "{refused:?}"
    );
    subject.piece(&mut open, "x").await.unwrap();
    subject.store.delete_session("s", true).await.unwrap();
    let late = subject.piece(&mut open, "y").await;
    assert!(matches!(late, Err(StoreError::RunNotOpen { .. })), "{late:?}");
    subject.store.abandon("s", "r");
    assert_eq!(subject.store.recover().await.unwrap(), Vec::<String>::new());
    assert_eq!(subject.stored("s").await, []);
    // Nothing of the run remains, so its id names no run.
    let again = NewRun {
        run_id: Some("r".to_owned()),
        ..session_run("other")
    };
    subject.open(again).await.unwrap();
}

async fn a_deleted_session_ends_its_subscriptions(subject: Subject) {
    recorded(&subject, "s").await;
    let head = subject.stored("s").await.last().map(StoredEvent::index);
    let mut waiting = subject.store.subscribe("s", head).await.unwrap();
    let mut behind = subject.store.subscribe("s", None).await.unwrap();
    behind.next().await.unwrap().unwrap();
    let waiter = tokio::spawn(async move { waiting.next().await });
    subject.store.delete_session("s", false).await.unwrap();
    assert_eq!(waiter.await.unwrap(), Ok(None));
    while let Some(event) = behind.next().await.unwrap() {
        assert!(Some(event.index()) <= head);
    }
}

async fn pieces_are_swept_after_the_resume_window(subject: Subject) {
    recorded(&subject, "s").await;
    let all = subject.stored("s").await;
    subject.clock.advance(10 * MINUTE);
    let swept = subject.store.sweep(retention(11 * MINUTE, None)).await.unwrap();
    assert_eq!((swept.pieces, swept.sessions), (0, 0));
    subject.clock.advance(2 * MINUTE);
    let swept = subject.store.sweep(retention(11 * MINUTE, None)).await.unwrap();
    assert_eq!((swept.pieces, swept.sessions), (2, 0));
    let left = subject.stored("s").await;
    let kept = |event: &&StoredEvent| event.event().body.kind() != "message_chunk";
    assert_eq!(left, all.iter().filter(kept).cloned().collect::<Vec<_>>());
    let events: Vec<_> = left.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Replay, &events), []);
    // A cursor in the middle of what is gone.
    let mut resumed = subject.store.subscribe("s", Some(1)).await.unwrap();
    assert_eq!(resumed.next().await.unwrap().as_ref(), left.get(1));
    // Numbers continue.
    recorded(&subject, "s").await;
    assert_eq!(numbers_of(&subject.stored("s").await), [0, 1, 2, 3]);
    let swept = subject.store.sweep(retention(11 * MINUTE, None)).await.unwrap();
    assert_eq!(swept.pieces, 0);
}

async fn old_sessions_are_swept(subject: Subject) {
    recorded(&subject, "old").await;
    subject.clock.advance(10 * MINUTE);
    recorded(&subject, "new").await;
    subject.clock.advance(MINUTE);
    let swept = subject
        .store
        .sweep(retention(60 * MINUTE, Some(5 * MINUTE)))
        .await
        .unwrap();
    assert_eq!((swept.pieces, swept.sessions), (0, 1));
    let sessions = subject.store.sessions(None).await.unwrap();
    let ids: Vec<_> = sessions
        .iter()
        .map(|session| session.session_id.as_str())
        .collect();
    assert_eq!(ids, ["new"]);
    let again = subject.open(session_run("old")).await.err();
    assert!(matches!(again, Some(StoreError::SessionDeleted { .. })));
}

async fn a_sweep_keeps_what_is_not_over(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    subject.piece(&mut run, "a").await.unwrap();
    subject.clock.advance(100 * MINUTE);
    let swept = subject
        .store
        .sweep(retention(MINUTE, Some(MINUTE)))
        .await
        .unwrap();
    assert_eq!((swept.pieces, swept.sessions), (0, 0));
    subject.piece(&mut run, "b").await.unwrap();
    subject.end(&mut run).await.unwrap();
    assert_eq!(subject.stored("s").await.len(), 5);
}

async fn a_sweep_reads_the_clock_of_the_store(subject: Subject) {
    recorded(&subject, "s").await;
    // The test's clock has not moved, whatever the machine's says.
    let swept = subject
        .store
        .sweep(retention(MINUTE, Some(MINUTE)))
        .await
        .unwrap();
    assert_eq!((swept.pieces, swept.sessions), (0, 0));
}
