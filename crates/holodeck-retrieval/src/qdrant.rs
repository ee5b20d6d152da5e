//! Qdrant over its REST API.
//!
//! One collection per index: a point per passage with a vector, a point per source and one for the index without. Qdrant
//! has no transactions: a source's point is marked unfinished while its passages are replaced.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use holodeck_http::HttpClient;
use holodeck_model::DatabaseConfig;

use self::api::Api;
use crate::{
    Entry, Filter, IndexInfo, IndexStats, KeywordSearch, RetrievalError, Scored, SourceState, VectorStore,
};

mod api;
mod filter;
mod search;
mod target;
mod write;

/// The YAML's name of this store.
pub(crate) const PROVIDER: &str = "qdrant";

/// Entries in Qdrant.
#[derive(Debug)]
pub struct QdrantStore {
    api: Api,
    prepared: Mutex<Option<IndexInfo>>,
}

impl QdrantStore {
    /// As `config` says; `collection` is the collection's name unless `config` has one. Connects on first use.
    pub fn new(
        config: &DatabaseConfig,
        collection: &str,
        client: &HttpClient,
    ) -> Result<Self, RetrievalError> {
        Ok(Self {
            api: target::api(config, collection, client)?,
            prepared: Mutex::default(),
        })
    }

    fn set_prepared(&self, info: Option<IndexInfo>) {
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = info;
    }

    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError> {
        let prepared = self
            .prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        write::replace(&self.api, prepared.as_ref(), parts).await
    }
}

#[async_trait]
impl VectorStore for QdrantStore {
    fn describe(&self) -> String {
        self.api.describe()
    }

    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError> {
        self.api.info().await
    }

    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError> {
        write::prepare(&self.api, info).await?;
        self.set_prepared(Some(info.clone()));
        Ok(())
    }

    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        self.api.sources().await
    }

    async fn replace(&self, source: &SourceState, entries: &[Entry]) -> Result<(), RetrievalError> {
        self.put(&[(source, entries)]).await
    }

    async fn replace_many(&self, batch: &[(SourceState, Vec<Entry>)]) -> Result<(), RetrievalError> {
        let parts: Vec<(&SourceState, &[Entry])> = batch
            .iter()
            .map(|(source, entries)| (source, entries.as_slice()))
            .collect();
        self.put(&parts).await
    }

    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError> {
        write::remove(&self.api, sources).await
    }

    async fn clear(&self) -> Result<(), RetrievalError> {
        self.api.delete_collection().await?;
        self.set_prepared(None);
        Ok(())
    }

    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        search::nearest(&self.api, query, limit, filter).await
    }

    fn keywords(&self) -> Option<&dyn KeywordSearch> {
        Some(self)
    }

    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>> {
        futures::stream::once(self.sources())
            .map_ok(|sources| futures::stream::iter(sources.into_iter().map(Ok)))
            .try_flatten()
            .and_then(move |state| async move {
                let entries = self.api.entries_of(&state.source).await?;
                Ok((state, entries))
            })
            .boxed()
    }

    async fn stats(&self) -> Result<IndexStats, RetrievalError> {
        let sources = self.api.sources().await?;
        Ok(IndexStats {
            sources: sources.len(),
            passages: sources.iter().map(|state| state.passages).sum(),
            bytes: None,
        })
    }
}

#[async_trait]
impl KeywordSearch for QdrantStore {
    async fn ranked(
        &self,
        query: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        search::ranked(&self.api, query, limit, filter).await
    }

    async fn containing(
        &self,
        phrases: &[String],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        search::containing(&self.api, phrases, limit, filter).await
    }
}
