use std::{fmt, sync::Arc};

use async_trait::async_trait;
use holodeck_http::HttpClient;
use holodeck_model::{EmbeddingProvider, EmbeddingSettings, Env};
use serde::{Deserialize, Serialize};

use crate::{EndpointOptions, RetrievalError};

mod cached;
mod hash;
mod http;
mod known;
mod wire;

pub use cached::CachedEmbedder;
pub use hash::HashEmbedder;
pub use http::HttpEmbedder;

/// Makes vectors of texts.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Which one it is: an index holds vectors of one embedder only.
    fn id(&self) -> &EmbedderId;

    /// One vector per text, in their order, each of length 1. Never a vector of zeros: a text that can't be embedded is
    /// an error.
    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError>;
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

/// What a text is embedded for; some models tell the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be found.
    Passage,
    /// To find.
    Query,
}

/// Which embedder made a vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderId {
    /// The provider as the YAML names it.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The length of its vectors, where it is known before the first one.
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
