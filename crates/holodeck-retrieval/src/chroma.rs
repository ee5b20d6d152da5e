//! Chroma over its REST API, version 2.
//!
//! Two collections per index: the passages, whose metadata describe how the index was built, and the sources. Chroma
//! has no transactions: a source is marked unfinished while its passages are replaced.

use async_trait::async_trait;
use futures::stream::BoxStream;
use holodeck_http::HttpClient;
use holodeck_model::DatabaseConfig;

use self::api::Api;
use crate::rest::Prepared;
use crate::store::source_by_source;
use crate::{Entry, Filter, IndexInfo, KeywordSearch, RetrievalError, Scored, SourceState, VectorStore};

mod api;
mod target;
mod write;

/// Name of this store in the YAML.
pub(crate) const PROVIDER: &str = "chromadb";

/// Stores entries in Chroma. It has no keyword search; that runs over all passages in memory.
#[derive(Debug)]
pub struct ChromaStore {
    api: Api,
    prepared: Prepared,
}

impl ChromaStore {
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
impl VectorStore for ChromaStore {
    fn describe(&self) -> String {
        self.api.describe()
    }

    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError> {
        let found = self.api.passages().await?;
        found.map(|found| self.api.info_of(&found)).transpose()
    }

    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError> {
        write::prepare(&self.api, info).await?;
        self.prepared.set(Some(info.clone()));
        Ok(())
    }

    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        self.api.all_sources().await
    }

    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError> {
        write::replace(&self.api, self.prepared.get().as_ref(), parts).await
    }

    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError> {
        write::remove(&self.api, sources).await
    }

    async fn clear(&self) -> Result<(), RetrievalError> {
        self.api.delete_collections().await?;
        self.prepared.set(None);
        Ok(())
    }

    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        self.api.nearest(query, limit, filter).await
    }

    fn keywords(&self) -> Option<&dyn KeywordSearch> {
        None
    }

    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>> {
        source_by_source(self.sources(), move |state| async move {
            let entries = self.api.entries_of(&state.source).await?;
            Ok(Some((state, entries)))
        })
    }
}
