//! The contract of embedding models, and the choice of one from the YAML.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use holodeck_http::HttpClient;
use holodeck_model::{EmbeddingProvider, EmbeddingSettings, Env};
use serde::{Deserialize, Serialize};

use crate::{EndpointOptions, RetrievalError};

mod cached;
mod hash;
mod http;
mod model_defaults;
mod wire;

pub use cached::CachedEmbedder;
pub use hash::HashEmbedder;
use http::HttpEmbedder;

/// Turns texts into vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Identifies the embedder: an index holds vectors of one embedder only.
    fn id(&self) -> &EmbedderId;

    /// One vector per text, in order, each of length 1. Never a vector of zeros: a text that can't be embedded is an
    /// error.
    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError>;

    /// The same, with the tokens that the model counted; `None` if an answer does not say them.
    async fn embed_counted(
        &self,
        texts: &[&str],
        purpose: Purpose,
    ) -> Result<CountedVectors, RetrievalError> {
        let vectors = self.embed(texts, purpose).await?;
        Ok(CountedVectors {
            vectors,
            tokens: None,
        })
    }
}

/// The vectors of texts, and the tokens of these.
#[derive(Clone, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "embedders construct it as a literal")]
pub struct CountedVectors {
    /// One vector per text.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens of all texts; `None` if unknown.
    pub tokens: Option<u64>,
}

/// The embedder that `settings` name.
pub fn embedder(
    settings: &EmbeddingSettings,
    client: &HttpClient,
    env: &Env,
    options: &EndpointOptions,
) -> Result<Arc<dyn Embedder>, RetrievalError> {
    if settings.provider == EmbeddingProvider::Hash {
        let asked = settings.dimensions.and_then(|asked| usize::try_from(asked).ok());
        return Ok(Arc::new(HashEmbedder::new(
            asked.unwrap_or(HashEmbedder::DIMENSIONS),
        )));
    }
    Ok(Arc::new(HttpEmbedder::new(
        settings,
        client.clone(),
        env,
        options,
    )?))
}

/// The purpose of embedding a text; some models distinguish the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A text to be found.
    Passage,
    /// A text to search with.
    Query,
}

/// The embedder that computed a vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderId {
    /// Name of the provider in the YAML.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The length of its vectors, if known before the first one.
    pub dimensions: Option<usize>,
}

impl fmt::Display for EmbedderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.provider, self.model)?;
        match self.dimensions {
            Some(dimensions) => write!(f, " ({dimensions} dimensions)"),
            None => Ok(()),
        }
    }
}
