//! Tests that sources are replaced as a whole and that indexes with other settings never mix.

use std::collections::HashSet;

use pretty_assertions::assert_eq;

use super::{DIMENSIONS, all, filled, ids, info, memory, query, source};
use crate::{EmbeddedStore, Filter, KeywordSearch as _, RetrievalError, VectorStore as _};

#[tokio::test]
async fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/index/docs.db");
    let store = filled(EmbeddedStore::open(&path).await.unwrap()).await;
    let before = all(&store).await;
    drop(store);
    let store = EmbeddedStore::open(&path).await.unwrap();
    assert_eq!(all(&store).await, before);
    assert_eq!(
        before[0],
        source(
            "a.md",
            "1",
            &["refunds within thirty days", "shipping is free", "we answer mail"]
        )
    );
    assert_eq!(store.info().await.unwrap(), Some(info("plain")));
    let sources = store.sources().await.unwrap();
    assert_eq!(
        sources.iter().map(|source| source.passages).collect::<Vec<_>>(),
        [3, 2, 0]
    );
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.sources, stats.passages), (3, 5));
    assert!(stats.bytes > Some(10_000));
}

#[tokio::test]
async fn a_source_is_replaced_whole() {
    let store = memory().await;
    assert_eq!(
        ids(&store
            .nearest(&query("shipping is free"), 1, &Filter::default())
            .await
            .unwrap()),
        ["a.md#1"]
    );
    let (state, entries) = source("a.md", "2", &["only returns"]);
    store.replace(&state, &entries).await.unwrap();
    let found = store
        .nearest(&query("shipping is free"), 9, &Filter::default())
        .await
        .unwrap();
    assert_eq!(
        ids(&found).into_iter().collect::<HashSet<_>>(),
        HashSet::from(["a.md#0", "b.md#0", "b.md#1"])
    );
    assert!(
        store
            .ranked("shipping", 9, &Filter::default())
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        ids(&store.ranked("return", 9, &Filter::default()).await.unwrap()),
        ["a.md#0"]
    );
    store
        .remove(&["a.md".to_owned(), "never.md".to_owned()])
        .await
        .unwrap();
    assert!(
        store
            .ranked("return", 9, &Filter::default())
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.sources().await.unwrap().len(), 2);
    store.clear().await.unwrap();
    assert_eq!(store.info().await.unwrap(), None);
    assert!(
        store
            .nearest(&query("x"), 9, &Filter::default())
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.stats().await.unwrap().passages, 0);
}

#[tokio::test]
async fn a_batch_is_all_or_nothing() {
    let store = memory().await;
    let before = all(&store).await;
    let mut twice = source("d.md", "1", &["one", "two"]);
    twice.1[1].passage.id = "b.md#0".to_owned();
    let refused = store
        .replace_many(&[source("c.md", "1", &["three"]), twice])
        .await
        .unwrap_err();
    insta::assert_snapshot!(refused, @"embedded index in memory: passage `b.md#0` of `d.md` already exists in another source");
    assert_eq!(all(&store).await, before);
}

#[tokio::test]
async fn vectors_without_a_direction_are_refused() {
    let store = memory().await;
    for vector in [
        vec![0.0; DIMENSIONS],
        vec![f32::NAN; DIMENSIONS],
        vec![f32::INFINITY; DIMENSIONS],
    ] {
        let (state, mut entries) = source("z.md", "1", &["zero"]);
        entries[0].vector.clone_from(&vector);
        let refused = store.replace(&state, &entries).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "embedded index in memory: passage `z.md#0` of `z.md` has a vector that is all zeros or not finite"
        );
        let refused = store.nearest(&vector, 1, &Filter::default()).await.unwrap_err();
        assert!(matches!(refused, RetrievalError::Query(_)), "{refused}");
    }
    let refused = store.nearest(&[1.0], 1, &Filter::default()).await.unwrap_err();
    insta::assert_snapshot!(refused, @"the query's vector has 1 dimensions, the index has 16");
    let (state, mut entries) = source("z.md", "1", &["short"]);
    entries[0].vector.truncate(3);
    let refused = store.replace(&state, &entries).await.unwrap_err();
    insta::assert_snapshot!(refused, @"embedded index in memory: the vectors of `z.md` do not have the index's 16 dimensions");
}

#[tokio::test]
async fn ways_of_making_it_are_never_mixed() {
    let store = memory().await;
    let mixed = store.prepare(&info("another")).await.unwrap_err();
    insta::assert_snapshot!(mixed.explanation().text(), @r"
    the index was built with hash words-1 (16 dimensions), plain, not with hash words-1 (16 dimensions), another

    hint: rebuild it with `--force-ingest`
    ");
    store.prepare(&info("plain")).await.unwrap();
    store.clear().await.unwrap();
    let (state, entries) = source("a.md", "1", &["a"]);
    assert!(
        store.replace(&state, &entries).await.is_err(),
        "nothing was prepared"
    );
    store.prepare(&info("another")).await.unwrap();
    store.replace(&state, &entries).await.unwrap();
}

#[tokio::test]
async fn an_owner_notices_that_another_rebuilt_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("i.db");
    let one = filled(EmbeddedStore::open(&path).await.unwrap()).await;
    let other = EmbeddedStore::open(&path).await.unwrap();
    other.clear().await.unwrap();
    other.prepare(&info("another")).await.unwrap();
    let (state, entries) = source("c.md", "1", &["c"]);
    assert!(matches!(
        one.replace(&state, &entries).await,
        Err(RetrievalError::Mixed { .. })
    ));
    other.replace(&state, &entries).await.unwrap();
    assert_eq!(
        ids(&one.nearest(&query("c"), 9, &Filter::default()).await.unwrap()),
        ["c.md#0"]
    );
}

#[tokio::test]
async fn a_second_writer_gets_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("i.db");
    let store = filled(EmbeddedStore::open(&path).await.unwrap()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Readers are not blocked.
    assert_eq!(
        store
            .nearest(&query("x"), 9, &Filter::default())
            .await
            .unwrap()
            .len(),
        5
    );
    let busy = store.remove(&["a.md".to_owned()]).await.unwrap_err().to_string();
    assert!(
        busy.ends_with("another process is writing to it; try again when it has finished"),
        "{busy}"
    );
    other.execute_batch("COMMIT").unwrap();
    store.remove(&["a.md".to_owned()]).await.unwrap();
}
