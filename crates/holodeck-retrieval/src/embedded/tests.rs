use std::collections::{BTreeMap, HashSet};

use futures::TryStreamExt as _;
use holodeck_model::JsonMap;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::EmbeddedStore;
use crate::scan::product;
use crate::{
    EmbedderId, Entry, Filter, HashEmbedder, IndexInfo, KeywordSearch as _, Passage, RetrievalError, Scored,
    SourceState, VectorStore as _,
};

const DIMENSIONS: usize = 16;

fn info(chunker: &str) -> IndexInfo {
    IndexInfo {
        embedder: EmbedderId {
            provider: "hash".to_owned(),
            model: "words-1".to_owned(),
            dimensions: None,
        },
        dimensions: DIMENSIONS,
        chunker: chunker.to_owned(),
    }
}

fn source(name: &str, hash: &str, texts: &[&str]) -> (SourceState, Vec<Entry>) {
    let embedder = HashEmbedder::new(DIMENSIONS);
    let entries = texts.iter().enumerate().map(|(at, text)| Entry {
        passage: Passage {
            id: format!("{name}#{at}"),
            source: name.to_owned(),
            text: (*text).to_owned(),
            context: None,
            metadata: metadata(json!({"page": at + 1, "kind": if at % 2 == 0 { "even" } else { "odd" }})),
        },
        vector: embedder.vector(text),
    });
    let state = SourceState {
        source: name.to_owned(),
        hash: hash.to_owned(),
        passages: texts.len(),
    };
    (state, entries.collect())
}

fn metadata(value: Value) -> JsonMap {
    match value {
        Value::Object(map) => map,
        _ => unreachable!(),
    }
}

fn filter(field: &str, value: Value) -> Filter {
    Filter {
        equal: vec![(field.to_owned(), value)],
    }
}

fn ids(scored: &[Scored]) -> Vec<&str> {
    scored.iter().map(|scored| scored.passage.id.as_str()).collect()
}

fn query(text: &str) -> Vec<f32> {
    HashEmbedder::new(DIMENSIONS).vector(text)
}

async fn filled(store: EmbeddedStore) -> EmbeddedStore {
    store.prepare(&info("plain")).await.unwrap();
    let batch = [
        source(
            "a.md",
            "1",
            &["refunds within thirty days", "shipping is free", "we answer mail"],
        ),
        source(
            "b.md",
            "1",
            &["Section 4.2 of the terms", "no refunds after Thirty  Days"],
        ),
        source("empty.md", "1", &[]),
    ];
    store.replace_many(&batch).await.unwrap();
    store
}

async fn memory() -> EmbeddedStore {
    filled(EmbeddedStore::in_memory().await.unwrap()).await
}

async fn all(store: &EmbeddedStore) -> Vec<(SourceState, Vec<Entry>)> {
    store.entries().try_collect().await.unwrap()
}

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
    insta::assert_snapshot!(refused, @"embedded index in memory: there is a passage `b.md#0` already, besides the one of `d.md`");
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
            "embedded index in memory: passage `z.md#0` of `z.md` has a vector of zeros, or of no numbers"
        );
        let refused = store.nearest(&vector, 1, &Filter::default()).await.unwrap_err();
        assert!(matches!(refused, RetrievalError::Query(_)), "{refused}");
    }
    let refused = store.nearest(&[1.0], 1, &Filter::default()).await.unwrap_err();
    insta::assert_snapshot!(refused, @"the query's vector has 1 numbers, those of the index have 16");
    let (state, mut entries) = source("z.md", "1", &["short"]);
    entries[0].vector.truncate(3);
    let refused = store.replace(&state, &entries).await.unwrap_err();
    insta::assert_snapshot!(refused, @"embedded index in memory: the vectors of `z.md` are not of length 16 as all others");
}

#[tokio::test]
async fn ways_of_making_it_are_never_mixed() {
    let store = memory().await;
    let mixed = store.prepare(&info("another")).await.unwrap_err();
    insta::assert_snapshot!(mixed, @r"
    the index was built with hash words-1 (16 dimensions), plain, not with hash words-1 (16 dimensions), another

    hint: `--force-ingest` builds it anew
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
async fn an_owner_notices_that_another_began_anew() {
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
    // Nothing in a query has a meaning to the full-text index.
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
async fn a_damaged_file_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let told = async |bytes: &[u8]| {
        let path = folder.path().join("i.db");
        std::fs::write(&path, bytes).unwrap();
        let error = EmbeddedStore::open(&path).await.err().unwrap().to_string();
        error.replace(&folder.path().display().to_string(), "…")
    };
    let mut errors = vec![told(b"no database at all, but long enough to be one").await];
    let path = folder.path().join("real.db");
    drop(filled(EmbeddedStore::open(&path).await.unwrap()).await);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(20_000);
    errors.push(told(&bytes).await);
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE a(b)")
        .unwrap();
    errors.push(told(&std::fs::read(&other).unwrap()).await);
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    errors.push(told(&std::fs::read(&path).unwrap()).await);
    errors.push(
        EmbeddedStore::open("/proc/none/i.db")
            .await
            .err()
            .unwrap()
            .to_string(),
    );
    insta::assert_snapshot!(errors.join("\n"), @"
    embedded index `…/i.db`: the file is damaged (file is not a database); delete it and build the index again
    embedded index `…/i.db`: the file is damaged (database disk image is malformed); delete it and build the index again
    embedded index `…/i.db`: the file is no index of HoloDeck but another database
    embedded index `…/i.db`: a newer version of HoloDeck made it; use that one, or delete it and build the index again
    embedded index `/proc/none/i.db`: the file can't be opened; does its folder exist and may you write to it?
    ");
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
        error.ends_with("the file is damaged (codes are missing); delete it and build the index again"),
        "{error}"
    );
}

#[tokio::test]
async fn a_second_writer_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("i.db");
    let store = filled(EmbeddedStore::open(&path).await.unwrap()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Readers do not mind.
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
        busy.ends_with("another process is writing to it; try again when that one has ended"),
        "{busy}"
    );
    other.execute_batch("COMMIT").unwrap();
    store.remove(&["a.md".to_owned()]).await.unwrap();
}

#[tokio::test]
async fn equal_ones_come_by_id() {
    let store = EmbeddedStore::in_memory().await.unwrap();
    store.prepare(&info("plain")).await.unwrap();
    // In another order than that of their ids, and more than one segment of them.
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

/// What a series of changes leaves, done in memory by hand.
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
