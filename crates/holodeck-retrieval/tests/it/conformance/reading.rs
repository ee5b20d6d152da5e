//! Checks that every store returns exactly what was put in.

use futures::TryStreamExt as _;
use holodeck_retrieval::{Filter, IndexStats};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::Case;
use super::data::{entry, info, put, random, state, with_metadata};

pub(super) async fn an_index_that_was_never_filled_is_empty(case: &Case<'_>) {
    let store = case.store().await;
    assert_eq!(store.info().await.unwrap(), None);
    assert_eq!(store.sources().await.unwrap(), []);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.sources, stats.passages), (0, 0));
    assert_eq!(
        store.nearest(&[1.0, 0.0], 3, &Filter::default()).await.unwrap(),
        []
    );
    assert!(store.entries().try_collect::<Vec<_>>().await.unwrap().is_empty());
    store.remove(&["nothing".to_owned()]).await.unwrap();
    store.clear().await.unwrap();
    if let Some(words) = store.keywords() {
        assert_eq!(words.ranked("word", 3, &Filter::default()).await.unwrap(), []);
        let phrases = ["word".to_owned()];
        assert_eq!(
            words.containing(&phrases, 3, &Filter::default()).await.unwrap(),
            []
        );
    }
}

pub(super) async fn what_is_put_in_comes_out(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    let (b, a) = (random("b.md", 7, 3, 1), random("a.md", 3, 3, 2));
    put(&*store, "b.md", &b).await;
    put(&*store, "a.md", &a).await;
    let expected = [(state("a.md", &a), a.clone()), (state("b.md", &b), b.clone())];
    let found: Vec<_> = store.entries().try_collect().await.unwrap();
    assert_eq!(found, expected);
    // Another process sees the same.
    let again = case.store().await;
    assert_eq!(again.info().await.unwrap(), Some(info(3)));
    let found: Vec<_> = again.entries().try_collect().await.unwrap();
    assert_eq!(found, expected);
}

pub(super) async fn any_text_and_any_metadata_come_out(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(2)).await.unwrap();
    let source = "Ordner/naïve \"Datei\"; drop table -- 東京.md";
    let mut strange = with_metadata(
        entry("id with ' and \\ and 👩‍👩‍👧", source, &[1.0, -1.0]),
        json!({
            "headings": ["1 Anfang", "1.1 \"Zitat\""],
            "page": 3,
            "big": 9_007_199_254_740_993_i64,
            "share": 0.1,
            "whole": 2.0,
            "done": true,
            "none": null,
            "nested": {"a": [1, {"b": "c"}], "": ""},
            "kéy with $ and .": "v\n\t\u{1}",
        }),
    );
    "tabs\t, lines\r\n, {\"json\": 1}, \\x00, 𝔘𝔫𝔦, e\u{301}".clone_into(&mut strange.passage.text);
    strange.passage.context = Some("Of the »beginning«".to_owned());
    let mut empty = entry("", source, &[0.5, 0.5]);
    empty.passage.text.clear();
    let entries = [strange, empty];
    put(&*store, source, &entries).await;
    let found: Vec<_> = store.entries().try_collect().await.unwrap();
    assert_eq!(found, [(state(source, &entries), entries.to_vec())]);
    let found = store.nearest(&[1.0, -1.0], 1, &Filter::default()).await.unwrap();
    assert_eq!(found[0].passage, entries[0].passage);
}

pub(super) async fn sources_are_counted(case: &Case<'_>) {
    let store = case.store().await;
    store.prepare(&info(3)).await.unwrap();
    for (source, count) in [("b", 2), ("a", 5), ("B", 1)] {
        put(&*store, source, &random(source, count, 3, 1)).await;
    }
    let mut sources = store.sources().await.unwrap();
    sources.sort_by(|a, b| a.source.cmp(&b.source));
    let found: Vec<_> = sources
        .iter()
        .map(|state| (state.source.as_str(), state.hash.as_str(), state.passages))
        .collect();
    assert_eq!(
        found,
        [
            ("B", "hash of B", 1),
            ("a", "hash of a", 5),
            ("b", "hash of b", 2)
        ]
    );
    let IndexStats {
        sources, passages, ..
    } = store.stats().await.unwrap();
    assert_eq!((sources, passages), (3, 8));
}
