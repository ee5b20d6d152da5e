//! What an index is made of. Each part is made when it is first needed.

use std::sync::Arc;

use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{EmbeddingProvider, HierarchicalDocumentTool, ToolConfig};
use holodeck_retrieval::{
    CachedEmbedder, Contexts, Embedder, EndpointOptions, HttpReranker, Ingestor, ModelCache, Reranker,
    RetrievalError, Searcher, VectorStore, embedder,
};

use super::{Index, place::collection, size, writer::ModelWriter};

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
                    RetrievalError::Setup("nothing makes embeddings for this agent".to_owned())
                })?;
                let made = embedder(&settings, &self.client()?, &self.env, &EndpointOptions::default())?;
                if settings.provider == EmbeddingProvider::Hash {
                    return Ok(made);
                }
                let cached = CachedEmbedder::new(made, self.cache().await?);
                Ok(Arc::new(cached) as Arc<dyn Embedder>)
            })
            .await
    }

    /// Whoever builds anew means that passages are embedded anew: behind the same name a provider may have put another
    /// model. What models wrote about passages stays, as it does not age.
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
        let model = match &self.tool {
            ToolConfig::HierarchicalDocument(tool) if tool.enable_reranking => tool.reranker_model.as_ref(),
            _ => None,
        };
        let Some(model) = model else { return Ok(None) };
        let reranker = HttpReranker::new(model, self.client()?, &EndpointOptions::default())?;
        Ok(Some(Arc::new(reranker)))
    }

    pub(super) async fn ingestor(
        &self,
        writer: Option<Arc<ModelWriter>>,
    ) -> Result<Ingestor, RetrievalError> {
        let (store, embedder) = (self.store().await?, self.embedder().await?);
        let ingestor = Ingestor::new(Arc::clone(store), Arc::clone(embedder));
        let (Some(writer), Some(tool)) = (writer, self.contextual()) else {
            return Ok(ingestor);
        };
        let (tokens, concurrency) = (size(tool.context_max_tokens), size(tool.context_concurrency));
        let contexts = Contexts::new(writer, tokens, concurrency).cached(self.cache().await?);
        Ok(ingestor.with_contexts(contexts))
    }

    pub(super) fn writer(&self) -> Option<Arc<ModelWriter>> {
        let tool = self.contextual()?;
        let writer = ModelWriter::new(&self.agent, tool, &self.env, self.answers.clone());
        Some(Arc::new(writer))
    }

    /// The tool, if its passages get a context.
    pub(super) fn contextual(&self) -> Option<&HierarchicalDocumentTool> {
        match &self.tool {
            ToolConfig::HierarchicalDocument(tool) if tool.contextual_embeddings => Some(tool),
            _ => None,
        }
    }

    pub(super) async fn cache(&self) -> Result<ModelCache, RetrievalError> {
        ModelCache::open(self.agent.execution.cache_dir.value.join("models.db")).await
    }

    pub(super) fn client(&self) -> Result<HttpClient, RetrievalError> {
        let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
        HttpClient::new(&options).map_err(|error| RetrievalError::Setup(error.to_string()))
    }
}
