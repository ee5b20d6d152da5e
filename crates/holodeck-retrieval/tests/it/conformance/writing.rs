//! Checks that every store replaces sources as a whole, also with two writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt as _;
use holodeck_retrieval::{Entry, Filter, RetrievalError, SourceState, VectorStore};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::data::{entry, ids, info, put, random, state};
use super::{Case, Promise};

async fn all(store: &dyn VectorStore) -> Vec<(SourceState, Vec<Entry>)> {
    store.entries().try_collect().await.unwrap()
}

pub(super) async fn a_source_is_replaced_whole(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    let other = random("other", 4, 3, 1);
    put(&*store, "doc", &random("doc", 9, 3, 2)).await;
    put(&*store, "other", &other).await;
    let mut fewer = random("doc", 2, 3, 3);
    "a new text under an old id".clone_into(&mut fewer[0].passage.text);
    let mut changed = state("doc", &fewer);
    "another hash".clone_into(&mut changed.hash);
    store.replace(&changed, &fewer).await.unwrap();
    assert_eq!(
        all(&*store).await,
        [(changed, fewer), (state("other", &other), other)]
    );
    assert_eq!(
        store
            .nearest(&[1.0, 0.0, 0.0], 100, &Filter::default())
            .await
            .unwrap()
            .len(),
        6
    );
}

pub(super) async fn many_sources_at_once(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(4)).await.unwrap();
    put(&*store, "1", &random("1", 3, 4, 1)).await;
    let batch: Vec<_> = (0..20)
        .map(|at| {
            let source = format!("{at:02}");
            let entries = random(&source, at, 4, 7);
            (state(&source, &entries), entries)
        })
        .collect();
    store.replace_many(&batch).await.unwrap();
    store.replace_many(&[]).await.unwrap();
    let mut expected = batch.clone();
    let first = random("1", 3, 4, 1);
    expected.push((state("1", &first), first));
    expected.sort_by(|(a, _), (b, _)| a.source.cmp(&b.source));
    assert_eq!(all(&*store).await, expected);
}

pub(super) async fn a_source_without_passages_is_remembered(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    put(&*store, "empty", &[]).await;
    put(&*store, "full", &random("full", 2, 3, 1)).await;
    put(&*store, "full", &[]).await;
    let sources = store.sources().await.unwrap();
    let counts: Vec<_> = sources.iter().map(|state| state.passages).collect();
    assert_eq!(counts, [0, 0]);
    assert_eq!(all(&*store).await.len(), 2);
    assert_eq!(
        store
            .nearest(&[1.0, 0.0, 0.0], 9, &Filter::default())
            .await
            .unwrap(),
        []
    );
}

pub(super) async fn removed_sources_are_gone(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    for source in ["a", "b", "c"] {
        put(&*store, source, &random(source, 3, 3, 1)).await;
    }
    let gone = ["a", "c", "never there"].map(str::to_owned);
    store.remove(&gone).await.unwrap();
    store.remove(&[]).await.unwrap();
    let left = random("b", 3, 3, 1);
    assert_eq!(all(&*store).await, [(state("b", &left), left)]);
    assert_eq!(store.stats().await.unwrap().passages, 3);
}

pub(super) async fn a_cleared_index_takes_another_embedder(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    put(&*store, "a", &random("a", 3, 3, 1)).await;
    store.clear().await.unwrap();
    assert_eq!(store.info().await.unwrap(), None);
    assert_eq!(store.sources().await.unwrap(), []);
    assert!(all(&*store).await.is_empty());
    store.prepare(&info(5)).await.unwrap();
    put(&*store, "a", &random("a", 3, 5, 1)).await;
    assert_eq!(store.info().await.unwrap(), Some(info(5)));
    assert_eq!(case.store().await.stats().await.unwrap().passages, 3);
}

pub(super) async fn what_was_made_otherwise_is_refused(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    // The index is empty: any other settings are accepted.
    store.prepare(&info(2)).await.unwrap();
    store.prepare(&info(3)).await.unwrap();
    let entries = random("a", 3, 3, 1);
    put(&*store, "a", &entries).await;
    store.prepare(&info(3)).await.unwrap();
    let mut others = [info(2), info(3), info(3)];
    "another model".clone_into(&mut others[1].embedder.model);
    "another way".clone_into(&mut others[2].chunker);
    for other in &others {
        for store in [&store, &case.store().await] {
            let error = store.prepare(other).await.unwrap_err();
            assert!(matches!(error, RetrievalError::Mixed { .. }), "{error:?}");
        }
    }
    assert_eq!(store.info().await.unwrap(), Some(info(3)));
    assert_eq!(all(&*store).await, [(state("a", &entries), entries)]);
}

pub(super) async fn a_writer_that_others_overtook_is_refused(case: &Case<'_>) {
    let (slow, quick) = (case.store().await, case.store().await);
    slow.prepare(&info(3)).await.unwrap();
    put(&*slow, "a", &random("a", 3, 3, 1)).await;
    quick.clear().await.unwrap();
    let mut other = info(3);
    "another model".clone_into(&mut other.embedder.model);
    quick.prepare(&other).await.unwrap();
    let entries = random("b", 2, 3, 2);
    put(&*quick, "b", &entries).await;
    let late = random("a", 1, 3, 1);
    let error = slow.replace(&state("a", &late), &late).await.unwrap_err();
    assert!(matches!(error, RetrievalError::Mixed { .. }), "{error:?}");
    assert_eq!(all(&*quick).await, [(state("b", &entries), entries)]);
}

pub(super) async fn wrong_vectors_change_nothing(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    let entries = random("a", 3, 3, 1);
    put(&*store, "a", &entries).await;
    let good = entry("good", "a", &[1.0, 0.0, 0.0]);
    for wrong in [vec![1.0, 0.0], vec![0.0; 3], vec![f32::NAN, 1.0, 0.0], vec![]] {
        let mut bad = entry("bad", "a", &[1.0, 0.0, 0.0]);
        bad.vector = wrong;
        let batch = [good.clone(), bad];
        store.replace(&state("a", &batch), &batch).await.unwrap_err();
        store
            .replace_many(&[(state("a", &batch), batch.to_vec())])
            .await
            .unwrap_err();
    }
    assert_eq!(all(&*store).await, [(state("a", &entries), entries.clone())]);
    let found = store
        .nearest(&[1.0, 0.0, 0.0], 9, &Filter::default())
        .await
        .unwrap();
    assert_eq!(found.len(), 3);
    assert!(!ids(&found).contains(&"good"));
}

pub(super) async fn thousands_at_once(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(8)).await.unwrap();
    let entries = random("large", 2500, 8, 1);
    put(&*store, "large", &entries).await;
    let batch: Vec<_> = (0..300)
        .map(|at| {
            let source = format!("small {at}");
            let entries = random(&source, 2, 8, at);
            (state(&source, &entries), entries)
        })
        .collect();
    store.replace_many(&batch).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.sources, stats.passages), (301, 3100));
    let found: Vec<_> = store.entries().try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(found.len(), 301);
    let large = found.iter().find(|(state, _)| state.source == "large").unwrap();
    assert_eq!(large.1, entries);
}

pub(super) async fn two_writers(case: &Case<'_>) {
    let write = async |of: &str, seed: u64| {
        let store = case.store().await;
        store.prepare(&info(3)).await.unwrap();
        for at in 0..10 {
            let source = format!("{of}{at}");
            put(&*store, &source, &random(&source, 5, 3, seed)).await;
        }
    };
    let first = case.store().await;
    first.prepare(&info(3)).await.unwrap();
    futures::join!(write("a", 1), write("b", 2));
    let stats = first.stats().await.unwrap();
    assert_eq!((stats.sources, stats.passages), (20, 100));
}

pub(super) async fn readers_see_all_of_a_replacement_or_nothing(case: &Case<'_>) {
    if !case.promises(Promise::Atomic) {
        return;
    }
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    let versions = [1_u64, 2].map(|version| {
        let mut entries = random("doc", 40, 3, version);
        for entry in &mut entries {
            entry.passage.text = format!("version {version}");
        }
        entries
    });
    put(&*store, "doc", &versions[0]).await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (done, store) = (Arc::clone(&done), case.store().await);
        async move {
            let filter = Filter {
                equal: vec![("source".to_owned(), json!("doc"))],
            };
            let mut looks = 0;
            while !done.load(Ordering::Acquire) || looks == 0 {
                let found = store.nearest(&[1.0, 0.5, 0.2], 100, &filter).await.unwrap();
                assert_eq!(found.len(), 40);
                let text = &found[0].passage.text;
                assert!(found.iter().all(|scored| scored.passage.text == *text));
                looks += 1;
            }
        }
    };
    let writer = async {
        for at in 1..20 {
            put(&*store, "doc", &versions[at % 2]).await;
        }
        done.store(true, Ordering::Release);
    };
    futures::join!(reader, writer);
}
