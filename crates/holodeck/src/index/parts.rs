//! Creates the store, embedder, searcher and other parts of an index on first use.

use std::sync::Arc;

use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{EmbeddingProvider, HierarchicalDocumentTool, ToolConfig};
use holodeck_retrieval::{
    CachedEmbedder, Contexts, Embedder, EndpointOptions, HttpReranker, Ingestor, ModelCache, Reranker,
    RetrievalError, Searcher, VectorStore, embedder, serves_rerank,
};

use super::{Index, place::collection, size, writer::ModelWriter};
use crate::agent::inventory::reranker;

impl Index {
    pub(super) async fn store(&self) -> Result<&Arc<dyn VectorStore>, RetrievalError> {
        self.store
            .get_or_try_init(|| async {
                self.place
                    .open(&collection(&self.agent, &self.tool), &self.client()?)
                    .await
            })
            .await
    }

    pub(super) async fn embedder(&self) -> Result<&Arc<dyn Embedder>, RetrievalError> {
        self.embedder
            .get_or_try_init(|| async {
                let settings = self.agent.config.embedding_settings(&self.tool).ok_or_else(|| {
                    RetrievalError::Setup("no embedding provider is configured for this agent".into())
                })?;
                let embedder = embedder(
                    &settings,
                    &self.client()?,
                    self.backends.env(),
                    &EndpointOptions::default(),
                )?;
                if settings.provider == EmbeddingProvider::Hash {
                    return Ok(embedder);
                }
                let cached = CachedEmbedder::new(embedder, self.cache().await?);
                Ok(Arc::new(cached) as Arc<dyn Embedder>)
            })
            .await
    }

    /// Clears cached vectors before a rebuild: a provider may have put another model behind the same name. Contexts
    /// written by models stay, because they do not become outdated.
    pub(super) async fn forget_vectors(&self) -> Result<(), RetrievalError> {
        let settings = self.agent.config.embedding_settings(&self.tool);
        if settings.is_some_and(|settings| settings.provider != EmbeddingProvider::Hash) {
            self.cache().await?.forget_vectors().await?;
        }
        Ok(())
    }

    pub(super) async fn searcher(&self) -> Result<&Searcher, RetrievalError> {
        self.searcher
            .get_or_try_init(|| async {
                let (store, embedder) = (self.store().await?, self.embedder().await?);
                let searcher = Searcher::new(Arc::clone(store), Arc::clone(embedder));
                Ok(match self.reranker()? {
                    Some(reranker) => searcher.reranked_by(reranker),
                    None => searcher,
                })
            })
            .await
    }

    pub(super) fn reranker(&self) -> Result<Option<Arc<dyn Reranker>>, RetrievalError> {
        let Some(model) = reranker(&self.tool).filter(|model| serves_rerank(model)) else {
            return Ok(None);
        };
        let reranker = HttpReranker::new(model, self.client()?, &EndpointOptions::default())?;
        Ok(Some(Arc::new(reranker)))
    }

    pub(super) async fn ingestor(
        &self,
        writer: Option<Arc<ModelWriter>>,
    ) -> Result<Ingestor, RetrievalError> {
        let (store, embedder) = (self.store().await?, self.embedder().await?);
        let ingestor = Ingestor::new(Arc::clone(store), Arc::clone(embedder));
        let (Some(writer), Some(tool)) = (writer, self.contextual_tool()) else {
            return Ok(ingestor);
        };
        let (tokens, concurrency) = (size(tool.context_max_tokens), size(tool.context_concurrency));
        let contexts = Contexts::new(writer, tokens, concurrency).cached(self.cache().await?);
        Ok(ingestor.with_contexts(contexts))
    }

    pub(super) fn writer(&self) -> Option<Arc<ModelWriter>> {
        let tool = self.contextual_tool()?;
        let writer = ModelWriter::new(&self.agent, tool, &self.backends);
        writer.map(Arc::new)
    }

    /// The tool, if its passages get a context.
    pub(super) fn contextual_tool(&self) -> Option<&HierarchicalDocumentTool> {
        match &self.tool {
            ToolConfig::HierarchicalDocument(tool) if tool.contextual_embeddings => Some(tool),
            _ => None,
        }
    }

    pub(super) async fn cache(&self) -> Result<ModelCache, RetrievalError> {
        ModelCache::open(self.agent.execution.cache_dir.value.join("models.db")).await
    }

    pub(super) fn client(&self) -> Result<HttpClient, RetrievalError> {
        let options = HttpOptions::from_variables(|name| self.backends.env().get(name).map(str::to_owned));
        HttpClient::new(&options).map_err(|error| RetrievalError::Setup(error.to_string().into()))
    }
}
