//! Puts the cache in front of an embedder.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Embedder, EmbedderId, Purpose};
use crate::{
    RetrievalError,
    cache::{CacheKey, CachedKind, ModelCache},
};

/// Caches the vectors of passages, so that no passage is paid for twice. Not for the hash embedder, which is faster
/// than any cache.
pub struct CachedEmbedder {
    inner: Arc<dyn Embedder>,
    cache: ModelCache,
}

/// Number of texts after which new vectors are saved: the most that a kill can lose.
const STEP: usize = 512;

impl CachedEmbedder {
    /// Puts `cache` in front of `inner`.
    pub fn new(inner: Arc<dyn Embedder>, cache: ModelCache) -> Self {
        Self { inner, cache }
    }

    fn key(&self, text: &str) -> CacheKey {
        let id = self.inner.id();
        let dimensions = id.dimensions.unwrap_or_default().to_le_bytes();
        CacheKey::of(
            CachedKind::Vector,
            &[
                b"vector",
                id.provider.as_bytes(),
                id.model.as_bytes(),
                &dimensions,
                text.as_bytes(),
            ],
        )
    }
}

#[async_trait]
impl Embedder for CachedEmbedder {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        if purpose == Purpose::Query {
            return self.inner.embed(texts, purpose).await;
        }
        let keys: Vec<CacheKey> = texts.iter().map(|text| self.key(text)).collect();
        let cached = self.cache.get(keys.clone()).await?;
        let dimensions = self.id().dimensions;
        let mut vectors: HashMap<CacheKey, Vec<f32>> = keys
            .iter()
            .zip(cached)
            .filter_map(|(key, bytes)| Some((*key, vector(&bytes?, dimensions)?)))
            .collect();
        // Each distinct text is embedded once.
        let mut missing: Vec<(CacheKey, &str)> = Vec::new();
        for (key, text) in keys.iter().zip(texts) {
            if !vectors.contains_key(key) {
                vectors.insert(*key, Vec::new());
                missing.push((*key, text));
            }
        }
        for step in missing.chunks(STEP) {
            let texts: Vec<&str> = step.iter().map(|(_, text)| *text).collect();
            let made = self.inner.embed(&texts, purpose).await?;
            let values = step
                .iter()
                .zip(&made)
                .map(|((key, _), vector)| (*key, bytes(vector)));
            self.cache.put(values.collect()).await?;
            vectors.extend(step.iter().map(|(key, _)| *key).zip(made));
        }
        Ok(keys.iter().filter_map(|key| vectors.get(key).cloned()).collect())
    }
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The cached vector, unless it does not fit this embedder.
fn vector(bytes: &[u8], dimensions: Option<usize>) -> Option<Vec<f32>> {
    let (numbers, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    let vector: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
    let length: f32 = vector.iter().map(|number| number * number).sum();
    let right = dimensions.is_none_or(|dimensions| dimensions == vector.len());
    (right && (length - 1.0).abs() < 1e-3).then_some(vector)
}
