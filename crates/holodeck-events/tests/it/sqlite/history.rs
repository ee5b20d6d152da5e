//! The cost of a message in a file with a long history, in pages that it writes.

use std::path::Path;

use holodeck_backend_api::ExecutionResult;
use rusqlite::Connection;

use crate::{
    backend_events::text,
    contract::{Subject, session_run},
};

/// Of one user, with four events each.
const SESSIONS: usize = 3_000;

/// Messages of which the cheapest counts: sometimes a page is split, or the process shows that it lives.
const MESSAGES: usize = 12;

/// Conversations that ended, as the tables keep them.
fn fill(path: &Path) {
    let file = Connection::open(path).unwrap();
    file.pragma_update(None, "synchronous", "off").unwrap();
    let numbers = |last: usize| {
        format!(
            "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {last})"
        )
    };
    let [one, four] = [1, 4].map(|events| numbers(SESSIONS * events));
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

/// The pages that a message and its answer write, each time that they write one.
async fn pages_of_a_message(subject: &Subject) -> u64 {
    let file = Connection::open(&subject.path).unwrap();
    let page: u64 = file
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .unwrap();
    let log = subject.path.with_extension("db-wal");
    let mut least = u64::MAX;
    for number in 0..MESSAGES {
        let emptied: (i64, i64) = file
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(emptied, (0, 0));
        let mut run = session_run(&format!("new-{number}"));
        run.user_id = Some("user-3".to_owned());
        // Each in a transaction of its own, however busy the machine is.
        let mut run = subject.open(run).await.unwrap();
        let piece = run.observe(&text("a piece"));
        subject.store.append(piece).await.unwrap();
        let end = run.complete(ExecutionResult::default());
        subject.store.append(end).await.unwrap();
        // A frame is a page and its head; the log has a head, too.
        let bytes = std::fs::metadata(&log).unwrap().len();
        least = least.min((bytes - 32) / (page + 24));
    }
    least
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_writes_hardly_more_pages_in_a_file_with_a_long_history() {
    let subject = Subject::sqlite().await;
    let empty = pages_of_a_message(&subject).await;
    let subject = Subject::sqlite().await;
    fill(&subject.path);
    let large = pages_of_a_message(&subject).await;
    // The ids of two events that are stored at the same time are rarely in one page.
    assert!(
        empty > 10 && large <= empty + 1,
        "{empty} pages, {large} with a history"
    );
}
