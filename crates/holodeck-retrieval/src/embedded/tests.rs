//! Tests of the embedded index: writing, searching and damaged files.

use futures::TryStreamExt as _;
use holodeck_model::JsonMap;
use serde_json::{Value, json};

use super::EmbeddedStore;
use crate::{
    EmbedderId, Entry, Filter, HashEmbedder, IndexInfo, Passage, Scored, SourceState, VectorStore as _,
};

mod damage;
mod searching;
mod writing;

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
async fn a_database_of_another_program_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE mine (a); INSERT INTO mine VALUES (7)")
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(!EmbeddedStore::may_open(&path));
    assert_eq!(EmbeddedStore::set_aside_if_damaged(&path).await.unwrap(), None);
    let refused = EmbeddedStore::open(&path).await.err().unwrap().to_string();
    assert!(refused.contains("another program"), "{refused}");
    // Opening it for writing would already change its header.
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
