//! Chooses the vector store of a server from the YAML, without connecting to it.

use std::sync::Arc;

use holodeck_backend_api::Explanation;
use holodeck_http::HttpClient;
use holodeck_model::{DatabaseConfig, DatabaseProvider};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
use crate::{ChromaStore, QdrantStore, RetrievalError, VectorStore};

/// The store on the server that `config` names; the index is called `collection` unless `config` names another. Does
/// not connect yet.
///
/// `in-memory` and `faiss` have no server: both are an [`EmbeddedStore`](crate::EmbeddedStore), which needs a file.
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
            let message = format!("the vector store `{}` is not supported yet", provider.as_str());
            return Err(RetrievalError::setup(
                Explanation::new(message).with_hint("supported: in-memory, postgres, qdrant and chromadb"),
            ));
        }
    })
}
