use std::sync::Arc;

use holodeck_http::HttpClient;
use holodeck_model::{DatabaseConfig, DatabaseProvider};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
use crate::{ChromaStore, QdrantStore, RetrievalError, VectorStore};

/// The store on the server that `config` names; `collection` is what an index is called there unless `config` says so.
/// Nothing is connected yet.
///
/// `in-memory` and `faiss` name no server: both are an [`EmbeddedStore`](crate::EmbeddedStore), which needs a file.
pub fn open_server(
    config: &DatabaseConfig,
    collection: &str,
    client: &HttpClient,
) -> Result<Arc<dyn VectorStore>, RetrievalError> {
    Ok(match config.provider {
        #[cfg(feature = "postgres")]
        DatabaseProvider::Postgres => Arc::new(PostgresStore::new(config, collection)?),
        DatabaseProvider::Qdrant => Arc::new(QdrantStore::new(config, collection, client)?),
        DatabaseProvider::Chromadb => Arc::new(ChromaStore::new(config, collection, client)?),
        provider => {
            return Err(RetrievalError::Setup(format!(
                "the vector store `{}` is not built yet\n\nhint: built are in-memory, postgres, qdrant and chromadb",
                provider.as_str()
            )));
        }
    })
}
