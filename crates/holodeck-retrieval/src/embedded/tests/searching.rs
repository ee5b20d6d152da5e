//! Tests that vector and keyword search are exact, also after random changes.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::{filled, filter, ids, info, memory, query, source};
use crate::scan::product;
use crate::{EmbeddedStore, Entry, Filter, KeywordSearch as _, VectorStore as _};

#[tokio::test]
async fn filters_go_by_metadata_and_source() {
    let store = memory().await;
    let nearest = async |filter| {
        let found = store.nearest(&query("refunds"), 9, &filter).await.unwrap();
        let mut ids: Vec<String> = ids(&found).into_iter().map(ToOwned::to_owned).collect();
        ids.sort();
        ids
    };
    assert_eq!(
        nearest(filter("source", json!("b.md"))).await,
        ["b.md#0", "b.md#1"]
    );
    assert_eq!(nearest(filter("source", json!("none.md"))).await, [""; 0]);
    assert_eq!(nearest(filter("source", json!(1))).await, [""; 0]);
    assert_eq!(nearest(filter("page", json!(2))).await, ["a.md#1", "b.md#1"]);
    let mut both = filter("kind", json!("even"));
    both.equal.push(("source".to_owned(), json!("a.md")));
    assert_eq!(nearest(both).await, ["a.md#0", "a.md#2"]);
    let odd = filter("kind", json!("odd"));
    assert_eq!(ids(&store.ranked("refunds", 9, &odd).await.unwrap()), ["b.md#1"]);
    assert_eq!(
        store
            .containing(&["thirty days".to_owned()], 9, &odd)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn words_are_found_by_their_stems() {
    let store = memory().await;
    let ranked = async |query: &str| {
        let found = store.ranked(query, 9, &Filter::default()).await.unwrap();
        ids(&found).into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ranked("ship").await, ["a.md#1"]);
    assert_eq!(ranked("MAILS").await, ["a.md#2"]);
    assert_eq!(ranked("4.2").await, ["b.md#0"]);
    assert_eq!(ranked("thirty refunded").await.len(), 2);
    // No part of a query is full-text syntax.
    for query in [
        "",
        " ",
        "\"",
        "* OR (",
        "NEAR(a b)",
        "text: x",
        "a AND",
        "-",
        "^a",
        "\0",
        "'); DROP",
        "{a} : b",
        "\u{1}x",
    ] {
        ranked(query).await;
    }
    assert_eq!(ranked("\"free\" OR NOT").await, ["a.md#1"]);
    assert_eq!(ranked("free*shipping").await, ["a.md#1"]);
}

#[tokio::test]
async fn phrases_are_found_word_for_word() {
    let store = memory().await;
    let containing = async |phrases: &[&str]| {
        let phrases: Vec<String> = phrases.iter().map(|phrase| (*phrase).to_owned()).collect();
        let found = store.containing(&phrases, 9, &Filter::default()).await.unwrap();
        ids(&found).into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(containing(&["thirty days"]).await, ["a.md#0", "b.md#1"]);
    assert_eq!(
        containing(&["Thirty days", "REFUNDS"]).await,
        ["a.md#0", "b.md#1"]
    );
    assert_eq!(containing(&["refund"]).await, [""; 0]);
    assert_eq!(containing(&["section 4.2"]).await, ["b.md#0"]);
    assert_eq!(containing(&["4"]).await, [""; 0]);
    assert_eq!(containing(&["", "\""]).await, [""; 0]);
}

#[tokio::test]
async fn equal_ones_come_by_id() {
    let store = EmbeddedStore::in_memory().await.unwrap();
    store.prepare(&info("plain")).await.unwrap();
    // In another order than their ids, and more than one segment of them.
    let texts = vec!["the same"; 1500];
    store
        .replace_many(&[source("z", "1", &texts), source("a", "1", &texts[..3])])
        .await
        .unwrap();
    let found = store
        .nearest(&query("the same"), 5, &Filter::default())
        .await
        .unwrap();
    assert_eq!(ids(&found), ["a#0", "a#1", "a#2", "z#0", "z#1"]);
    let found = store.ranked("same", 5, &Filter::default()).await.unwrap();
    assert_eq!(ids(&found), ["a#0", "a#1", "a#2", "z#0", "z#1"]);
}

#[tokio::test]
async fn words_that_most_passages_have_only_count_alone() {
    let store = EmbeddedStore::in_memory().await.unwrap();
    store.prepare(&info("plain")).await.unwrap();
    let texts: Vec<String> = (0..1_200)
        .map(|at| format!("the {} text", if at % 400 == 7 { "rare" } else { "usual" }))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (state, entries) = source("s", "1", &texts);
    store.replace(&state, &entries).await.unwrap();
    let ranked = async |query: &str| {
        let found = store.ranked(query, 2_000, &Filter::default()).await.unwrap();
        found.len()
    };
    assert_eq!(ranked("the rare text").await, 3);
    assert_eq!(ranked("the text").await, 1_200);
    assert_eq!(ranked("the nowhere").await, 1_200);
}

#[tokio::test]
async fn missing_codes_are_no_fewer_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("i.db");
    let store = filled(EmbeddedStore::open(&path).await.unwrap()).await;
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("DELETE FROM codes WHERE first = 1")
        .unwrap();
    let error = store
        .nearest(&query("x"), 1, &Filter::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("the file is damaged (codes are missing); delete it and rebuild the index"),
        "{error}"
    );
}

/// The expected result of a series of changes, applied in memory.
#[derive(Clone, Debug)]
enum Change {
    Replace(u8, Vec<u8>),
    Remove(u8),
    Search(u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..6_u8, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(name, words)| Change::Replace(name, words)),
        1 => (0..6_u8).prop_map(Change::Remove),
        3 => any::<u8>().prop_map(Change::Search),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn search_is_exact_after_any_changes(changes in prop::collection::vec(change(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = EmbeddedStore::in_memory().await.unwrap();
            store.prepare(&info("plain")).await.unwrap();
            let mut model: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
            for change in changes {
                match change {
                    Change::Replace(name, words) => {
                        let texts: Vec<String> = words.iter().map(|word| format!("word{word} and {}", word % 7)).collect();
                        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                        let (state, entries) = source(&format!("s{name}"), "1", &texts);
                        store.replace(&state, &entries).await.unwrap();
                        model.insert(state.source, entries);
                    }
                    Change::Remove(name) => {
                        store.remove(&[format!("s{name}")]).await.unwrap();
                        model.remove(&format!("s{name}"));
                    }
                    Change::Search(word) => {
                        let query = query(&format!("word{word}"));
                        let mut wanted: Vec<(f64, &str)> = model.values().flatten()
                            .map(|entry| (product(&query, &entry.vector).clamp(-1.0, 1.0), entry.passage.id.as_str()))
                            .collect();
                        wanted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
                        wanted.truncate(7);
                        let found = store.nearest(&query, 7, &Filter::default()).await.unwrap();
                        let found: Vec<(f64, &str)> =
                            found.iter().map(|scored| (scored.score, scored.passage.id.as_str())).collect();
                        assert_eq!(found, wanted);
                    }
                }
            }
        });
    }
}
