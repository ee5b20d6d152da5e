//! The cost of a message in a file with a long history, in pages that it changes, and of the deletion of that history.

use std::{collections::BTreeSet, path::Path};

use holodeck_backend_api::ExecutionResult;
use rusqlite::Connection;

use crate::{
    backend_events::text,
    contract::{Subject, session_run},
};

/// Sessions with four events each: the ids of their events fill many pages in both.
const SHORT: usize = 300;
const LONG: usize = 3_000;

/// Messages of which the cheapest counts: sometimes a page is split.
const MESSAGES: usize = 12;

/// Conversations that ended, as the tables keep them.
fn fill(path: &Path, sessions: usize) {
    let file = Connection::open(path).unwrap();
    file.pragma_update(None, "synchronous", "off").unwrap();
    let numbers = |last: usize| {
        format!(
            "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {last})"
        )
    };
    let [one, four] = [1, 4].map(|events| numbers(sessions * events));
    file.execute_batch(&format!(
        "BEGIN;
         {one} INSERT INTO sessions (number, session_id, owner, next_index, next_sequence, ceiling, last_at, created_at)
             SELECT n + 1, 'old-' || n, 'user-' || (n % 10), 1000, 1000, 1000, 1000 + n, n FROM numbers;
         {one} INSERT INTO runs (number, run_id, session, writer, epoch, first_index, last_index, ended_at)
             SELECT n + 1, 'run-' || n, n + 1, 'w', 0, 0, 3, n FROM numbers;
         {four} INSERT INTO events (session, event_index, event_id, run, class, type, payload)
             SELECT n / 4 + 1, n % 4, randomblob(16), n / 4 + 1, 0, 'message', '{{}}' FROM numbers;
         COMMIT;"
    ))
    .unwrap();
}

/// The numbers of the pages in a log: each frame begins with its own, four bytes, the highest first.
fn pages_in(log: &[u8], page: usize) -> BTreeSet<&[u8]> {
    log[32..]
        .chunks_exact(24 + page)
        .map(|frame| &frame[..4])
        .collect()
}

/// The pages that a message and its answer change beside this many sessions. In how many transactions they are stored
/// depends on how busy the machine is; these pages do not. And its events.
async fn pages_of_a_message(sessions: usize) -> (usize, usize) {
    let subject = Subject::sqlite().await;
    fill(&subject.path, sessions);
    let file = Connection::open(&subject.path).unwrap();
    let page = file
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .unwrap();
    let log = subject.path.with_extension("db-wal");
    let (mut least, mut events) = (usize::MAX, 0);
    for number in 0..MESSAGES {
        let emptied: (i64, i64) = file
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(emptied, (0, 0));
        let mut run = session_run(&format!("new-{number}"));
        run.user_id = Some("user-3".to_owned());
        let mut run = subject.open(run).await.unwrap();
        let piece = run.observe(&text("a piece"));
        subject.store.append(piece).await.unwrap();
        let end = run.complete(ExecutionResult::default());
        subject.store.append(end).await.unwrap();
        let log = std::fs::read(&log).unwrap();
        least = least.min(pages_in(&log, page).len());
        let session = format!("new-{number}");
        events = subject.store.read_after(&session, None).await.unwrap().len();
    }
    (least, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_changes_hardly_more_pages_in_a_file_with_a_long_history() {
    let (short, events) = pages_of_a_message(SHORT).await;
    let (long, same_events) = pages_of_a_message(LONG).await;
    assert_eq!(events, same_events);
    // The ids of events are random: each has a page of its own in the index of a long history, and in that of a short one
    // some share theirs.
    assert!(
        short > events && long < short + events,
        "{short} pages, {long} with a long history, {events} events"
    );
}

#[tokio::test]
async fn the_log_stays_short_while_old_conversations_are_swept_and_messages_are_written() {
    const SESSIONS: usize = 1_500;
    // What a step and the messages beside it write.
    const MEGABYTES: u64 = 12;
    let subject = Subject::sqlite().await;
    fill(&subject.path, SESSIONS);
    let log = subject.path.with_extension("db-wal");
    let store = std::sync::Arc::clone(&subject.store);
    let sweep = tokio::spawn(async move {
        let retention = holodeck_events::Retention {
            resume_window: std::time::Duration::from_hours(1),
            sessions: Some(std::time::Duration::from_hours(1)),
        };
        store.sweep(retention).await.unwrap()
    });
    let (mut longest, mut messages) = (0, 0);
    while !sweep.is_finished() {
        let mut run = subject
            .open(session_run(&format!("new-{messages}")))
            .await
            .unwrap();
        let end = run.complete(ExecutionResult::default());
        subject.store.append(end).await.unwrap();
        messages += 1;
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert_eq!(sweep.await.unwrap().sessions, SESSIONS);
    assert!(
        messages > 20 && longest > 0 && longest < MEGABYTES << 20,
        "{longest} bytes beside {messages} messages"
    );
}
