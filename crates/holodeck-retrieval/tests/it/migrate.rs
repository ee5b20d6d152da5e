//! Migrating an index from one store to another.

use std::sync::Mutex;

use futures::TryStreamExt as _;
use holodeck_retrieval::{EmbeddedStore, Entry, MoveProgress, SourceState, VectorStore, migrate};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::conformance::data::{info, put, random, with_metadata};

async fn filled(sources: usize) -> EmbeddedStore {
    let store = EmbeddedStore::in_memory().await.unwrap();
    store.prepare(&info(6)).await.unwrap();
    for at in 0..sources {
        let source = format!("docs/{at:03}.md");
        let entries: Vec<Entry> = random(&source, at % 7, 6, at as u64)
            .into_iter()
            .map(|entry| with_metadata(entry, json!({"page": at, "headings": ["A", at.to_string()]})))
            .collect();
        put(&store, &source, &entries).await;
    }
    put(&store, "a large one.md", &random("a large one.md", 1500, 6, 9)).await;
    store
}

async fn all(store: &dyn VectorStore) -> Vec<(SourceState, Vec<Entry>)> {
    store.entries().try_collect().await.unwrap()
}

/// Migrates an index to `there` and back: the result is the same.
pub(crate) async fn there_and_back(there: &dyn VectorStore) {
    let from = filled(60).await;
    let cancel = CancellationToken::new();
    let reported = Mutex::new(Vec::new());
    let report = migrate(
        &from,
        there,
        &|progress| reported.lock().unwrap().push(progress),
        &cancel,
    )
    .await
    .unwrap();
    assert_eq!((report.copied, report.kept, report.removed), (61, 0, 0));
    assert_eq!(
        report.stats.passages,
        all(&from).await.iter().map(|(_, e)| e.len()).sum::<usize>()
    );
    assert!(report.checked >= 15, "{}", report.checked);
    let reported = reported.into_inner().unwrap();
    assert_eq!(
        reported[0],
        MoveProgress {
            sources: 61,
            done: 0,
            passages: 0
        }
    );
    let last = reported.last().unwrap();
    assert_eq!((last.done, last.passages), (61, report.stats.passages));

    let back = EmbeddedStore::in_memory().await.unwrap();
    migrate(there, &back, &|_| {}, &cancel).await.unwrap();
    assert_eq!(all(&back).await, all(&from).await);
    assert_eq!(back.info().await.unwrap(), from.info().await.unwrap());
}

#[tokio::test]
async fn an_index_moves_and_back() {
    there_and_back(&EmbeddedStore::in_memory().await.unwrap()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn an_index_moves_to_postgres_and_back() {
    let server = holodeck_testkit::PostgresServer::start();
    let there = crate::postgres::store(&server.url(), json!({}), "moved");
    there_and_back(&there).await;
}

#[tokio::test]
async fn an_interrupted_migration_continues() {
    let (from, to) = (filled(30).await, EmbeddedStore::in_memory().await.unwrap());
    let cancel = CancellationToken::new();
    let stop = |progress: MoveProgress| {
        if progress.done > 0 {
            cancel.cancel();
        }
    };
    let error = migrate(&from, &to, &stop, &cancel).await.unwrap_err();
    assert_eq!(error.to_string(), "cancelled");
    let some = to.stats().await.unwrap().sources;
    assert!(some > 0 && some < 31, "{some}");
    put(&to, "a stranger", &random("a stranger", 3, 6, 5)).await;
    put(&to, "docs/001.md", &random("docs/001.md", 4, 6, 5)).await;

    let report = migrate(&from, &to, &|_| {}, &CancellationToken::new())
        .await
        .unwrap();
    assert!(report.kept > 0 && report.copied > 0, "{report:?}");
    assert_eq!((report.kept + report.copied, report.removed), (31, 1));
    assert_eq!(all(&to).await, all(&from).await);
}

#[tokio::test]
async fn what_can_not_be_moved_is_refused() {
    let cancel = CancellationToken::new();
    let empty = EmbeddedStore::in_memory().await.unwrap();
    let error = migrate(&empty, &filled(1).await, &|_| {}, &cancel)
        .await
        .unwrap_err();
    assert!(
        error.to_string().ends_with("there is no index to move"),
        "{error}"
    );
    // The target already holds other entries.
    let other = EmbeddedStore::in_memory().await.unwrap();
    other.prepare(&info(3)).await.unwrap();
    put(&other, "a", &random("a", 2, 3, 1)).await;
    migrate(&filled(1).await, &other, &|_| {}, &cancel)
        .await
        .unwrap_err();
    assert_eq!(other.stats().await.unwrap().passages, 2);
}
