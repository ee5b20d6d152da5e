//! Compares texts with the vectors of an embedding model. It must not know what the texts are for.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Compared, TextSimilarity};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{EmbeddingProvider, EmbeddingSettings, Env, Spent, TokenUsage};
use holodeck_retrieval::{
    CountedVectors, Embedder, EndpointOptions, Purpose, RetrievalError, embedder, product,
};
use holodeck_turn::Prices;
use tokio::sync::Mutex;

/// The vectors of texts.
type Vectors = Arc<Vec<Vec<f32>>>;

/// The similarity of the vectors that an embedder computes. Those of the texts are computed once.
pub(crate) struct EmbeddedSimilarity {
    embedder: Arc<dyn Embedder>,
    name: String,
    is_local: bool,
    prices: Prices,
    known: Mutex<Option<(Vec<String>, Vectors)>>,
}

impl EmbeddedSimilarity {
    /// The embedder of these settings. Nothing is asked yet.
    pub(crate) fn new(settings: &EmbeddingSettings, env: &Env, prices: Prices) -> Result<Self, BackendError> {
        let options = HttpOptions::from_variables(|name| env.get(name).map(str::to_owned));
        let client = HttpClient::new(&options).map_err(|error| BackendError::init(error.to_string()))?;
        let embedder = embedder(settings, &client, env, &EndpointOptions::default());
        Ok(Self {
            embedder: embedder.map_err(|error| as_backend_error(&error))?,
            name: settings.model.clone(),
            is_local: settings.provider == EmbeddingProvider::Hash,
            prices,
            known: Mutex::default(),
        })
    }

    /// The vectors of the texts, and what was spent for them now; several questions at once wait for the first.
    async fn vectors(&self, texts: &[String]) -> Result<(Vectors, Spent), BackendError> {
        let mut known = self.known.lock().await;
        if let Some((_, vectors)) = known.as_ref().filter(|(known, _)| known == texts) {
            return Ok((Arc::clone(vectors), Spent::default()));
        }
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (vectors, spent) = self.embed(&borrowed, Purpose::Passage).await?;
        let vectors = Arc::new(vectors);
        *known = Some((texts.to_vec(), Arc::clone(&vectors)));
        Ok((vectors, spent))
    }

    fn unfitting(&self) -> BackendError {
        BackendError::init(format!("the vectors of `{}` do not fit the texts", self.name))
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<(Vec<Vec<f32>>, Spent), BackendError> {
        let embedded = self.embedder.embed_counted(texts, purpose).await;
        let CountedVectors { vectors, tokens } = embedded.map_err(|error| as_backend_error(&error))?;
        let tokens = tokens.map(|tokens| TokenUsage::new(tokens, 0));
        let spent = Spent {
            calls: 1,
            cost_usd: tokens.and_then(|tokens| self.prices.cost(&self.name, &tokens)),
            tokens,
        };
        let spent = if self.is_local { Spent::default() } else { spent };
        Ok((vectors, spent))
    }
}

#[async_trait]
impl TextSimilarity for EmbeddedSimilarity {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
        let (vectors, of_texts) = self.vectors(texts).await?;
        let (asked, of_query) = self.embed(&[query], Purpose::Query).await?;
        let [asked] = asked.as_slice() else {
            let count = asked.len();
            return Err(BackendError::init(format!(
                "`{}` returned {count} vectors for one text",
                self.name
            )));
        };
        if vectors.len() != texts.len() {
            return Err(self.unfitting());
        }
        Ok(Compared {
            cosines: cosines(asked, &vectors).ok_or_else(|| self.unfitting())?,
            spent: of_texts + of_query,
        })
    }
}

/// The similarity of what texts mean, all embedded in the same way.
///
/// Some models embed a question in another way than what answers it; two answers are neither.
pub(crate) struct LikeTexts(EmbeddedSimilarity);

impl LikeTexts {
    /// The embedder of these settings. Nothing is asked yet.
    pub(crate) fn new(settings: &EmbeddingSettings, env: &Env, prices: Prices) -> Result<Self, BackendError> {
        EmbeddedSimilarity::new(settings, env, prices).map(Self)
    }
}

#[async_trait]
impl TextSimilarity for LikeTexts {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
        let all: Vec<&str> = [query]
            .into_iter()
            .chain(texts.iter().map(String::as_str))
            .collect();
        let (vectors, spent) = self.0.embed(&all, Purpose::Passage).await?;
        let cosines = match vectors.as_slice() {
            [asked, vectors @ ..] if vectors.len() == texts.len() => {
                cosines(asked, vectors).ok_or_else(|| self.0.unfitting())?
            }
            _ => return Err(self.0.unfitting()),
        };
        Ok(Compared { cosines, spent })
    }
}

/// The cosines of the vectors with one of them; `None` if one has another length.
fn cosines(asked: &[f32], vectors: &[Vec<f32>]) -> Option<Vec<i64>> {
    let fits = vectors.iter().all(|vector| vector.len() == asked.len());
    fits.then(|| vectors.iter().map(|vector| cosine(vector, asked)).collect())
}

fn as_backend_error(error: &RetrievalError) -> BackendError {
    BackendError::init(error.explanation())
}

/// The cosine of two vectors of length 1, in millionths.
fn cosine(one: &[f32], other: &[f32]) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a cosine is between -1 and 1")]
    let millionths = (product(one, other).clamp(-1.0, 1.0) * 1e6).round() as i64;
    millionths
}
