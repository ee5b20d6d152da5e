use std::fmt;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use crate::{EmbedderId, Entry, Filter, RetrievalError, Scored, SourceState};

/// Keeps entries and finds them.
#[async_trait]
pub trait VectorStore: Send + Sync {
    /// What it is called in messages: provider and place, nothing secret.
    fn describe(&self) -> String;

    /// How its index was made; `None` before the first entry.
    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError>;

    /// Says how the index will be made. An error if it holds entries made otherwise, unless `clear` was called before.
    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError>;

    /// Every source it holds.
    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError>;

    /// Puts each source's entries in place of those it had and remembers its state with them, each source whole or not
    /// at all. Stores that pay for every transaction put them into one.
    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError>;

    /// [`put`](Self::put) for one source.
    async fn replace(&self, source: &SourceState, entries: &[Entry]) -> Result<(), RetrievalError> {
        self.put(&[(source, entries)]).await
    }

    /// [`put`](Self::put) for a batch that somebody collected.
    async fn replace_many(&self, batch: &[(SourceState, Vec<Entry>)]) -> Result<(), RetrievalError> {
        let parts: Vec<(&SourceState, &[Entry])> = batch
            .iter()
            .map(|(source, entries)| (source, entries.as_slice()))
            .collect();
        self.put(&parts).await
    }

    /// Forgets sources.
    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError>;

    /// Forgets everything, also how the index was made.
    async fn clear(&self) -> Result<(), RetrievalError>;

    /// The nearest passages by cosine similarity, best first; the score is the similarity. Equal ones by id.
    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError>;

    /// Search for words, where the store has one of its own.
    fn keywords(&self) -> Option<&dyn KeywordSearch>;

    /// Everything it holds, for a move to another store, source by source.
    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>>;

    /// How much it holds.
    async fn stats(&self) -> Result<IndexStats, RetrievalError> {
        let sources = self.sources().await?;
        Ok(IndexStats {
            sources: sources.len(),
            passages: sources.iter().map(|state| state.passages).sum(),
            bytes: None,
        })
    }
}

/// What [`VectorStore::entries`] gives, by reading one source after the other; one that went away meanwhile is not
/// missed.
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

/// Finds words.
#[async_trait]
pub trait KeywordSearch: Send + Sync {
    /// Passages ranked by BM25, best first; only their order is meant, not the score's size.
    async fn ranked(&self, query: &str, limit: usize, filter: &Filter)
    -> Result<Vec<Scored>, RetrievalError>;

    /// Passages that hold every one of `phrases` word for word, letter case aside.
    async fn containing(
        &self,
        phrases: &[String],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError>;
}

/// How an index was made. Two that differ are never mixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexInfo {
    /// Who made its vectors.
    pub embedder: EmbedderId,
    /// The length of its vectors.
    pub dimensions: usize,
    /// How documents were cut up, in one line.
    pub chunker: String,
}

/// How much an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexStats {
    /// Sources.
    pub sources: usize,
    /// Passages.
    pub passages: usize,
    /// Bytes on disk, where the store tells.
    pub bytes: Option<u64>,
}

impl IndexInfo {
    /// Refuses to mix with an index that is made in another way.
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
