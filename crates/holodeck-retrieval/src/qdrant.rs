//! Qdrant over its REST API.
//!
//! One collection per index: a point per passage with a vector, and points without vectors for each source and for the
//! index. Qdrant has no transactions: a source's point is marked unfinished while its passages are replaced.

use async_trait::async_trait;
use futures::stream::BoxStream;
use holodeck_http::HttpClient;
use holodeck_model::DatabaseConfig;

use self::api::Api;
use crate::rest::Prepared;
use crate::store::source_by_source;
use crate::{Entry, Filter, IndexInfo, KeywordSearch, RetrievalError, Scored, SourceState, VectorStore};

mod api;
mod filter;
mod search;
mod target;
mod write;

/// Name of this store in the YAML.
pub(crate) const PROVIDER: &str = "qdrant";

/// Stores entries in Qdrant.
#[derive(Debug)]
pub struct QdrantStore {
    api: Api,
    prepared: Prepared,
}

impl QdrantStore {
    /// Configured by `config`; the collection is `collection` unless `config` names one. Connects on first use.
    pub fn new(
        config: &DatabaseConfig,
        collection: &str,
        client: &HttpClient,
    ) -> Result<Self, RetrievalError> {
        Ok(Self {
            api: target::api(config, collection, client)?,
            prepared: Prepared::default(),
        })
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
        self.prepared.set(Some(info.clone()));
        Ok(())
    }

    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        self.api.sources().await
    }

    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError> {
        write::replace(&self.api, self.prepared.get().as_ref(), parts).await
    }

    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError> {
        write::remove(&self.api, sources).await
    }

    async fn clear(&self) -> Result<(), RetrievalError> {
        self.api.delete_collection().await?;
        self.prepared.set(None);
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
        source_by_source(self.sources(), move |state| async move {
            let entries = self.api.entries_of(&state.source).await?;
            Ok(Some((state, entries)))
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
