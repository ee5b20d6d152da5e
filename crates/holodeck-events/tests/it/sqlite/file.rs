//! Tests of the database file itself: restarts, earlier versions, full disks, power loss and permissions.

use std::sync::{Arc, Mutex};

use futures::{FutureExt as _, future::join_all};
use holodeck_events::{
    Clock, Delivery, EventStore as _, NewRun, RecordError, Recording, Retention, SqliteStore, StoreError,
    StoredEvent, View,
};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use rusqlite::Connection;

use crate::{
    backend_events::{answered, call, result, text},
    contract::{Subject, numbers_of, session_run},
    session::check,
};

/// A session of the first version with a run that was killed while it asked for the second time.
const QUESTIONS: &str = r#"
INSERT INTO sessions (number, session_id, owner, next_index, next_sequence, ceiling, last_at)
VALUES (2, 't', 'alice', 7, 3, 1025, 1795464000300);
INSERT INTO runs (number, run_id, session, writer, epoch, first_index) VALUES (2, 'r2', 2, 'w', 0, 1);
INSERT INTO events (session, event_index, sequence_number, event_id, run, tool_use_id, class, type, payload) VALUES
(2, 0, NULL, x'b0000000000040008000000000000000', NULL, NULL, 1, 'session_start',
 '{"type":"session_start","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000000","persistenceState":"transient","eventIndex":0,"sessionId":"t","agentName":"helper"}'),
(2, 1, 0, x'b0000000000040008000000000000001', 2, NULL, 0, 'user_message_confirmed',
 '{"type":"user_message_confirmed","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000001","persistenceState":"persisted","eventIndex":1,"sequenceNumber":0,"sessionId":"t","runId":"r2","messageId":"m-1","content":"go","userId":"alice"}'),
(2, 2, 1, x'b0000000000040008000000000000002', 2, 'a', 0, 'tool_use',
 '{"type":"tool_use","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000002","persistenceState":"persisted","eventIndex":2,"sequenceNumber":1,"sessionId":"t","runId":"r2","turn":1,"toolUseId":"a","toolName":"f","args":{}}'),
(2, 3, 2, x'b0000000000040008000000000000003', 2, 'b', 0, 'tool_use',
 '{"type":"tool_use","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000003","persistenceState":"persisted","eventIndex":3,"sequenceNumber":2,"sessionId":"t","runId":"r2","turn":1,"toolUseId":"b","toolName":"f","args":{}}'),
(2, 4, NULL, x'b0000000000040008000000000000004', 2, NULL, 1, 'approval_requested',
 '{"type":"approval_requested","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000004","persistenceState":"pending","eventIndex":4,"sessionId":"t","runId":"r2","turn":1,"approvalId":"ap-1","toolName":"f","description":"Run `f`","toolUseId":"a"}'),
(2, 5, NULL, x'b0000000000040008000000000000005', 2, NULL, 1, 'approval_resolved',
 '{"type":"approval_resolved","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000005","persistenceState":"transient","eventIndex":5,"sessionId":"t","runId":"r2","turn":1,"approvalId":"ap-1","approved":true,"decision":"approved"}'),
(2, 6, NULL, x'b0000000000040008000000000000006', 2, NULL, 1, 'approval_requested',
 '{"type":"approval_requested","timestamp":"2026-11-23T20:00:00.000Z","eventId":"b0000000-0000-4000-8000-000000000006","persistenceState":"pending","eventIndex":6,"sessionId":"t","runId":"r2","turn":1,"approvalId":"ap-2","toolName":"f","description":"Run `f`","toolUseId":"b"}');
"#;

fn long_run() -> Vec<crate::backend_events::Emitted> {
    answered((0..2_000).map(|_| text(&"x".repeat(500))))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_the_same_after_a_restart() {
    let subject = Subject::sqlite().await;
    let emitted = answered([call("a", "f"), result("a", "f", "1"), text("done")]);
    let delivered = subject.record(session_run("s"), emitted).await;
    for _ in 0..5 {
        let again = subject.open_file().await;
        assert_eq!(again.read_after("s", None).await.unwrap(), delivered);
        again.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_resumes_a_finished_run_after_a_restart() {
    let subject = Subject::sqlite().await;
    let store = subject.open_file().await;
    let emitted = answered([call("a", "f"), result("a", "f", "1"), text("done")]);
    let delivered = subject.record(session_run("s"), emitted).await;
    store.close().await.unwrap();
    let again = subject.open_file().await;
    let (seen, rest) = delivered.split_at(2);
    let mut subscription = again
        .subscribe("s", seen.last().map(StoredEvent::index))
        .await
        .unwrap();
    for event in rest {
        assert_eq!(subscription.next().await.unwrap().as_ref(), Some(event));
    }
    assert!(rest.last().unwrap().event().body.is_terminal());
    assert!(subscription.next().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_each_earlier_version_opens_with_the_same_bytes() {
    let subject = Subject::sqlite().await;
    let path = subject.path.with_file_name("old.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("version_1.sql")).unwrap();
    old.execute_batch(QUESTIONS).unwrap();
    let payloads: Vec<String> = old
        .prepare("SELECT payload FROM events WHERE session = 1 ORDER BY event_index")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    drop(old);
    let store = SqliteStore::open(&path, subject.options()).await.unwrap();
    let json = |event: &StoredEvent| event.json().to_owned();
    let stored = store.read_after("s", None).await.unwrap();
    assert_eq!(stored.iter().map(json).collect::<Vec<_>>(), payloads);
    assert_eq!(payloads.len(), 4);
    let known = store.session("s").await.unwrap().unwrap();
    assert_eq!((known.runs, known.messages, known.agent), (1, 2, None));
    assert_eq!(known.first_message.as_deref(), Some("go"));
    let times = [known.created_at, known.last_at].map(|time| time.as_millisecond() - 1_795_464_000_000);
    assert_eq!(times, [0, 300]);
    // What was asked before, answered or not, and the end of the run whose process is gone.
    let known = store.session("t").await.unwrap().unwrap();
    assert_eq!((known.agent.as_deref(), known.open_run), (Some("helper"), None));
    let known = store.approval("ap-1").await.unwrap().unwrap();
    assert_eq!(
        (known.status(), known.agent.as_deref()),
        ("approved", Some("helper"))
    );
    assert_eq!(
        store.approval("ap-2").await.unwrap().unwrap().status(),
        "cancelled"
    );
    assert_eq!(store.approvals(None, None).await.unwrap(), []);
    // Its session continues.
    let run = NewRun {
        user_id: Some("alice".to_owned()),
        ..session_run("s")
    };
    let (_, first) = subject.draft(run);
    let next = store.open_run(first).await.unwrap();
    assert_eq!((next.index(), next.event().meta.sequence_number), (4, Some(2)));
}

/// The same script into both stores, apart from ids and times, which the test makes the same.
#[tokio::test(flavor = "multi_thread")]
async fn both_stores_keep_the_same_events() {
    let mut exports = Vec::new();
    for subject in [Subject::memory(), Subject::sqlite().await] {
        subject.start("s", Some("alice")).await.unwrap();
        let run = || NewRun {
            user_id: Some("alice".to_owned()),
            ..session_run("s")
        };
        let emitted = answered([call("a", "f"), result("a", "f", "1"), text("one"), text("two")]);
        subject.record(run(), emitted).await;
        let mut cut = subject.open(run()).await.unwrap();
        subject.piece(&mut cut, "half").await.unwrap();
        subject.store.abandon("s", cut.run_id());
        subject.store.recover().await.unwrap();
        let json = |event: &StoredEvent| event.json().to_owned();
        exports.push(subject.stored("s").await.iter().map(json).collect::<Vec<_>>());
    }
    assert_eq!(exports[0].len(), 12);
    assert_eq!(exports[0], exports[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_reports_it_and_ends_its_subscriptions() {
    let subject = Subject::sqlite().await;
    let store = subject.open_file().await;
    let (_, first) = subject.draft(session_run("s"));
    let stored = store.open_run(first).await.unwrap();
    let mut subscription = store.subscribe("s", Some(stored.index())).await.unwrap();
    let clone = store.clone();
    store.close().await.unwrap();
    assert_eq!(subscription.next().await, Ok(None));
    let (_, next) = subject.draft(session_run("t"));
    assert!(matches!(
        clone.open_run(next).await,
        Err(StoreError::Failed { .. })
    ));
    assert!(clone.subscribe("s", None).await.is_err());
    clone.abandon("s", "r");
}

/// The first commit stores pieces of text without waiting for the disk, and raises the ceiling.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_raises_the_ceiling_is_stored_once_or_refused() {
    let subject = Subject::sqlite().await;
    let mut run = subject.open(session_run("s")).await.unwrap();
    // Whatever is committed beside the append fails.
    let other = Connection::open(&subject.path).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER broken BEFORE UPDATE ON writers BEGIN SELECT RAISE(FAIL, 'broken'); END",
        )
        .unwrap();
    let mut returned = vec![subject.stored("s").await.remove(0)];
    for _ in 0..3 {
        let pieces: Vec<_> = (0..700).flat_map(|_| run.observe(&text("x"))).collect();
        if let Ok(events) = subject.store.append(pieces).await {
            returned.extend(events);
        }
    }
    assert_eq!(subject.stored("s").await, returned);
    assert_eq!(returned.len(), 2_101);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_is_above_every_number_that_was_delivered() {
    let subject = Subject::sqlite().await;
    let mut run = subject.open(session_run("s")).await.unwrap();
    let other = Connection::open(&subject.path).unwrap();
    for _ in 0..2_500 {
        let index = subject.piece(&mut run, "x").await.unwrap()[0].index();
        let ceiling: u64 = other
            .query_row("SELECT ceiling FROM sessions", [], |row| row.get(0))
            .unwrap();
        assert!(index < ceiling, "{index} {ceiling}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_a_power_loss_dropped_are_not_given_again() {
    let subject = Subject::sqlite().await;
    let mut run = subject.open(session_run("s")).await.unwrap();
    for _ in 0..1_500 {
        subject.piece(&mut run, "x").await.unwrap();
    }
    let delivered = subject.store.session("s").await.unwrap().unwrap().head;
    // The file as the machine's end leaves it: later pieces, whose commits did not reach the disk, are not in it.
    let copy = subject.path.with_file_name("copy.db");
    let other = Connection::open(&subject.path).unwrap();
    other.execute("VACUUM INTO ?", [copy.to_str().unwrap()]).unwrap();
    let lost = Connection::open(&copy).unwrap();
    lost.execute_batch("DELETE FROM events WHERE event_index > 1100; UPDATE sessions SET next_index = 1101;")
        .unwrap();
    drop(lost);
    let store = SqliteStore::open(&copy, subject.options()).await.unwrap();
    let events = store.read_after("s", None).await.unwrap();
    let new: Vec<_> = events.iter().filter(|event| event.index() > 1_100).collect();
    assert_eq!(new.len(), 2);
    assert!(new.iter().all(|event| Some(event.index()) > delivered));
    let events: Vec<_> = events.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_stops_the_run_and_delivers_nothing_that_is_not_stored() {
    let subject = Subject::sqlite().await;
    let mut options = subject.options();
    options.max_pages = Some(64);
    let path = subject.path.with_file_name("small.db");
    let store = SqliteStore::open(&path, options.clone()).await.unwrap();
    let clock: Arc<dyn Clock> = subject.clock.clone();
    let delivered = Mutex::new(Vec::new());
    let lost = Mutex::new(Vec::new());
    let sink = |event: Delivery| match event {
        Delivery::Stored(event) => delivered.lock().unwrap().push(event),
        Delivery::Transient(event) => lost.lock().unwrap().push(event.event().clone()),
    };
    let recording = Recording::new(&store, &clock, &subject.ids).with_sink(&sink);
    let stream = Box::pin(futures::stream::iter(long_run()));
    let stopped = recording.record(session_run("s"), stream).await;
    assert!(
        matches!(
            &stopped,
            Err(RecordError::Lost {
                error: StoreError::Full,
                ..
            })
        ),
        "{stopped:?}"
    );
    let [end] = &lost.into_inner().unwrap()[..] else {
        panic!("one end");
    };
    assert!(matches!(&end.body, EventBody::Error(error) if error.code == "PERSISTENCE_FAILED"));
    assert_eq!((end.meta.event_index, end.meta.sequence_number), (None, None));
    // The end of the run may still have found room.
    let delivered = delivered.into_inner().unwrap();
    let stored = store.read_after("s", None).await.unwrap();
    assert!(delivered.len() > 10, "{}", delivered.len());
    assert_eq!(stored[..delivered.len()], delivered);
    store.close().await.unwrap();

    // It opens and is read while it is full; with more room the run ends and the next begins.
    let store = SqliteStore::open(&path, options).await.unwrap();
    assert_eq!(store.read_after("s", None).await.unwrap()[..stored.len()], stored);
    store.close().await.unwrap();
    let store = SqliteStore::open(&path, subject.options()).await.unwrap();
    let events = store.read_after("s", None).await.unwrap();
    assert_eq!(events[..stored.len()], stored);
    let numbers = numbers_of(&events);
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let events: Vec<_> = events.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
    let (_, first) = subject.draft(session_run("s"));
    store.open_run(first).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_has_room_again_after_a_deletion() {
    let subject = Subject::sqlite().await;
    let mut options = subject.options();
    options.max_pages = Some(64);
    let path = subject.path.with_file_name("small.db");
    let store = SqliteStore::open(&path, options).await.unwrap();
    let (mut run, first) = subject.draft(session_run("s"));
    store.open_run(first).await.unwrap();
    let large = "x".repeat(1_000);
    let mut count = 0;
    let full = loop {
        match store.append(run.observe(&text(&large))).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, StoreError::Full);
    assert!(count > 20);
    let (_, first) = subject.draft(session_run("t"));
    store.delete_session("s", true).await.unwrap();
    store.open_run(first).await.unwrap();
    assert_eq!(store.read_after("t", None).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_newer_version_or_of_another_program_is_refused_and_not_changed() {
    let subject = Subject::sqlite().await;
    subject.record(session_run("s"), answered([text("x")])).await;
    let Subject { path, store, .. } = &subject;
    drop(store.session("s").await);
    let other = Connection::open(path).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    let newer = SqliteStore::open(path, subject.options()).await.err();
    assert_eq!(
        newer,
        Some(StoreError::Newer {
            path: path.display().to_string()
        })
    );
    let version: i64 = other
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 99);

    let foreign = path.with_file_name("foreign.db");
    let theirs = Connection::open(&foreign).unwrap();
    theirs.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let refused = SqliteStore::open(&foreign, subject.options()).await.err();
    let reason = refused.unwrap().to_string();
    assert!(reason.contains("another program's database"), "{reason}");
    let tables: i64 = theirs
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);

    let text_file = path.with_file_name("text.db");
    std::fs::write(
        &text_file,
        "not a database, but text that is long enough to be read as one",
    )
    .unwrap();
    let reason = SqliteStore::open(&text_file, subject.options())
        .await
        .err()
        .unwrap();
    assert!(reason.to_string().contains("damaged"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_open_a_new_file_at_the_same_time_all_succeed() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("events.db");
        let opening = (0..8).map(|_| {
            let path = path.clone();
            tokio::spawn(
                async move { SqliteStore::open(path, holodeck_events::SqliteOptions::default()).await },
            )
        });
        for opened in join_all(opening).await {
            opened.unwrap().unwrap();
        }
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn only_its_user_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let subject = Subject::sqlite().await;
    subject.open(session_run("s")).await.unwrap();
    let folder = subject.path.parent().unwrap();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_file() {
            files += 1;
            assert_eq!(metadata.permissions().mode() & 0o077, 0, "{entry:?}");
        }
    }
    assert!(files >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_leaves_nothing_of_a_deleted_session_in_the_file() {
    let subject = Subject::sqlite().await;
    let secret = "mellon-1954";
    subject.record(session_run("s"), answered([text(secret)])).await;
    let contains = || {
        ["events.db", "events.db-wal"].iter().any(|name| {
            let bytes = std::fs::read(subject.path.with_file_name(name)).unwrap_or_default();
            bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes())
        })
    };
    assert!(contains());
    subject.clock.advance(std::time::Duration::from_secs(100));
    let retention = Retention {
        resume_window: std::time::Duration::ZERO,
        sessions: Some(std::time::Duration::from_secs(10)),
    };
    let swept = subject.store.sweep(retention).await.unwrap();
    assert_eq!(swept.sessions, 1);
    assert!(!contains());
    let stored: Vec<StoredEvent> = subject.stored("s").await;
    assert_eq!(stored, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_written_says_so_until_it_can() {
    let subject = Subject::sqlite().await;
    let mut options = subject.options();
    options.max_pages = Some(64);
    let path = subject.path.with_file_name("small.db");
    let store = SqliteStore::open(&path, options).await.unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    let (mut run, first) = subject.draft(session_run("s"));
    store.open_run(first).await.unwrap();
    let large = "x".repeat(1_000);
    while store.append(run.observe(&text(&large))).await.is_ok() {}
    assert_eq!(store.check_writable().await, Err(StoreError::Full));
    store.delete_session("s", true).await.unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    // Another file under its name is not the store, and nothing is none.
    let away = path.with_file_name("away.db");
    std::fs::rename(&path, &away).unwrap();
    assert!(store.check_writable().await.is_err());
    std::fs::write(&path, b"").unwrap();
    assert!(store.check_writable().await.is_err());
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_owner_sees_who_writes_to_a_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let subject = Subject::sqlite().await;
    let mode = |name: &str| {
        let about = std::fs::metadata(subject.path.with_file_name(name)).unwrap();
        about.permissions().mode() & 0o777
    };
    // A folder of an earlier version was open to all.
    let earlier = subject.path.with_file_name("earlier.db-writers");
    std::fs::create_dir(&earlier).unwrap();
    std::fs::set_permissions(&earlier, std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["earlier.db", "new.db"] {
        let path = subject.path.with_file_name(name);
        let store = SqliteStore::open(&path, subject.options()).await.unwrap();
        assert_eq!(mode(&format!("{name}-writers")), 0o700, "{name}");
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reserve_of_space_is_made_when_a_store_is_opened() {
    let subject = Subject::sqlite().await;
    let mut options = subject.options();
    let path = subject.path.with_file_name("kept.db");
    let reserve = path.with_file_name("kept.db-reserve");
    options.reserve_bytes = 100_000;
    options.free_space = Some(|_| Some(1_000_000));
    let store = SqliteStore::open(&path, options.clone()).await.unwrap();
    assert_eq!(std::fs::metadata(&reserve).unwrap().len(), 100_000);
    store.close().await.unwrap();
    // More than the disk can spare.
    std::fs::remove_file(&reserve).unwrap();
    options.reserve_bytes = 200_000;
    let store = SqliteStore::open(&path, options.clone()).await.unwrap();
    assert!(!reserve.exists());
    store.close().await.unwrap();
    // A disk that is nearly full is none to write to.
    options.free_space = Some(|_| Some(1_000));
    let store = SqliteStore::open(&path, options).await.unwrap();
    assert_eq!(store.check_writable().await, Err(StoreError::Full));
}
