//! The contracts of vector stores and of keyword search in them; `tests/it/conformance` checks every store.

use std::fmt;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use crate::{EmbedderId, Entry, Filter, RetrievalError, Scored, SourceState};

/// Stores and searches entries.
#[async_trait]
pub trait VectorStore: Send + Sync {
    /// Its name in messages: provider and place, without secrets.
    fn describe(&self) -> String;

    /// How its index was built; `None` before the first entry.
    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError>;

    /// Declares how the index will be built. Returns an error if it holds entries built otherwise, unless `clear` was
    /// called before.
    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError>;

    /// All sources.
    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError>;

    /// Replaces the entries of each source and stores its state with them, each source completely or not at all. Stores
    /// with expensive transactions use a single one.
    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError>;

    /// [`put`](Self::put) for one source.
    async fn replace(&self, source: &SourceState, entries: &[Entry]) -> Result<(), RetrievalError> {
        self.put(&[(source, entries)]).await
    }

    /// [`put`](Self::put) for a batch of owned sources.
    async fn replace_many(&self, batch: &[(SourceState, Vec<Entry>)]) -> Result<(), RetrievalError> {
        let parts: Vec<(&SourceState, &[Entry])> = batch
            .iter()
            .map(|(source, entries)| (source, entries.as_slice()))
            .collect();
        self.put(&parts).await
    }

    /// Removes sources.
    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError>;

    /// Removes everything, including how the index was built.
    async fn clear(&self) -> Result<(), RetrievalError>;

    /// The nearest passages by cosine similarity, best first; the score is the similarity. Ties by id.
    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError>;

    /// Keyword search, if the store has its own.
    fn keywords(&self) -> Option<&dyn KeywordSearch>;

    /// All entries, source by source, for a migration to another store.
    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>>;

    /// The size of the index.
    async fn stats(&self) -> Result<IndexStats, RetrievalError> {
        let sources = self.sources().await?;
        Ok(IndexStats {
            sources: sources.len(),
            passages: sources.iter().map(|state| state.passages).sum(),
            bytes: None,
        })
    }
}

/// Implements [`VectorStore::entries`] by reading the sources one by one; sources deleted meanwhile are skipped.
pub(crate) fn source_by_source<'s, F>(
    sources: impl Future<Output = Result<Vec<SourceState>, RetrievalError>> + Send + 's,
    read: impl FnMut(SourceState) -> F + Send + 's,
) -> BoxStream<'s, Result<(SourceState, Vec<Entry>), RetrievalError>>
where
    F: Future<Output = Result<Option<(SourceState, Vec<Entry>)>, RetrievalError>> + Send + 's,
{
    stream::once(sources)
        .map_ok(|sources| stream::iter(sources.into_iter().map(Ok)))
        .try_flatten()
        .try_filter_map(read)
        .boxed()
}

/// Keyword search.
#[async_trait]
pub trait KeywordSearch: Send + Sync {
    /// Passages ranked by BM25, best first; only the order is meaningful, not the score.
    async fn ranked(&self, query: &str, limit: usize, filter: &Filter)
    -> Result<Vec<Scored>, RetrievalError>;

    /// Passages that contain every one of `phrases` literally, ignoring letter case.
    async fn containing(
        &self,
        phrases: &[String],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError>;
}

/// How an index was built. Entries of different settings are never mixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexInfo {
    /// The embedder of its vectors.
    pub embedder: EmbedderId,
    /// The length of its vectors.
    pub dimensions: usize,
    /// How documents were split, in one line.
    pub chunker: String,
}

/// The size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexStats {
    /// Sources.
    pub sources: usize,
    /// Passages.
    pub passages: usize,
    /// Bytes on disk, if the store reports them.
    pub bytes: Option<u64>,
}

impl IndexInfo {
    /// Returns an error if an index was built with other settings.
    pub(crate) fn must_equal(&self, wanted: &Self) -> Result<(), RetrievalError> {
        let of = |info: &Self| {
            (
                info.embedder.provider.clone(),
                info.embedder.model.clone(),
                info.dimensions,
            )
        };
        if of(self) == of(wanted) && self.chunker == wanted.chunker {
            return Ok(());
        }
        Err(RetrievalError::Mixed {
            found: self.to_string(),
            wanted: wanted.to_string(),
        })
    }
}

impl fmt::Display for IndexInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EmbedderId { provider, model, .. } = &self.embedder;
        write!(
            f,
            "{provider} {model} ({} dimensions), {}",
            self.dimensions, self.chunker
        )
    }
}
