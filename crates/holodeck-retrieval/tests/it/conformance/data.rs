//! Sample passages with reproducible vectors for all store tests.

use holodeck_retrieval::{EmbedderId, Entry, IndexInfo, Passage, Scored, SourceState, VectorStore};
use serde_json::Value;

pub(crate) fn info(dimensions: usize) -> IndexInfo {
    IndexInfo {
        embedder: EmbedderId {
            provider: "test".to_owned(),
            model: "numbers".to_owned(),
            dimensions: Some(dimensions),
        },
        dimensions,
        chunker: "by hand".to_owned(),
    }
}

pub(crate) fn state(source: &str, entries: &[Entry]) -> SourceState {
    SourceState {
        source: source.to_owned(),
        hash: format!("hash of {source}"),
        passages: entries.len(),
    }
}

pub(crate) fn entry(id: &str, source: &str, vector: &[f32]) -> Entry {
    Entry {
        passage: Passage {
            id: id.to_owned(),
            source: source.to_owned(),
            text: format!("text of {id}"),
            context: None,
            metadata: serde_json::Map::new(),
        },
        vector: unit(vector),
    }
}

pub(crate) fn with_text(id: &str, source: &str, text: &str) -> Entry {
    let mut entry = entry(id, source, &[1.0, 2.0]);
    text.clone_into(&mut entry.passage.text);
    entry
}

pub(crate) fn with_metadata(mut entry: Entry, metadata: Value) -> Entry {
    let Value::Object(metadata) = metadata else {
        panic!("metadata is an object")
    };
    entry.passage.metadata = metadata;
    entry
}

/// Of length 1.
pub(crate) fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / length).collect()
}

/// Entries with pseudo-random vectors that are the same in every run.
pub(crate) fn random(source: &str, count: usize, dimensions: usize, seed: u64) -> Vec<Entry> {
    let mut numbers = Numbers(seed);
    (0..count)
        .map(|at| {
            let vector: Vec<f32> = (0..dimensions).map(|_| numbers.next()).collect();
            entry(&format!("{source}-{at:05}"), source, &vector)
        })
        .collect()
}

pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Between -1 and 1.
    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bits = u16::try_from(self.0 >> 48).unwrap();
        f32::from(bits) / 32768.0 - 1.0
    }
}

pub(crate) async fn put(store: &dyn VectorStore, source: &str, entries: &[Entry]) {
    store.replace(&state(source, entries), entries).await.unwrap();
}

pub(crate) fn ids(found: &[Scored]) -> Vec<&str> {
    found.iter().map(|scored| scored.passage.id.as_str()).collect()
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
