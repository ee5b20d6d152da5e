//! Requests vectors from OpenAI-compatible endpoints, Azure and Ollama in bounded batches.
//!
//! An answer without a usable vector for every text is an error.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use holodeck_http::HttpClient;
use holodeck_model::{EmbeddingProvider, EmbeddingSettings, EndpointConfig, Env, JsonMap, Provider};
use serde_json::Value;

use super::{
    CountedVectors, Embedder, EmbedderId, Purpose,
    model_defaults::{ModelDefaults, model_defaults},
    wire::{self, OllamaAnswer, OpenAiAnswer},
};
use crate::{
    RetrievalError,
    endpoint::{Endpoint, EndpointOptions, Failure},
};

/// Texts per request.
const BATCH_TEXTS: usize = 128;
/// Bytes of text per request, about 64,000 tokens; a longer text is sent alone.
const BATCH_BYTES: usize = 256 * 1024;
/// Approximate size of one answer: servers write a number with up to 24 characters.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;
const NUMBER_BYTES: usize = 24;
/// Ollama processes texts sequentially, so a long request looks like a dead one.
const OLLAMA_BATCH_TEXTS: usize = 32;

/// An embedding model behind an OpenAI-compatible endpoint, Azure or Ollama.
#[derive(Debug)]
pub(super) struct HttpEmbedder {
    id: EmbedderId,
    endpoint: Endpoint,
    dialect: Dialect,
    defaults: ModelDefaults,
    /// Sent only if the YAML sets it: most models have a single length.
    configured: Option<u32>,
    concurrency: usize,
    /// The length of the first vectors, if it was not known before.
    observed: OnceLock<usize>,
    /// Some texts were too long for the model; from then on, it truncates them.
    cuts: AtomicBool,
    /// The most texts per request that the server was seen to take after it refused more.
    most_texts: AtomicUsize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    OpenAi,
    Ollama,
}

impl HttpEmbedder {
    /// The embedder that `settings` name, reached through `client`, with keys from the YAML or else from `env`. The
    /// hash embedder has no server.
    pub(super) fn new(
        settings: &EmbeddingSettings,
        client: HttpClient,
        env: &Env,
        options: &EndpointOptions,
    ) -> Result<Self, RetrievalError> {
        let (provider, dialect, operation) = match settings.provider {
            EmbeddingProvider::Openai => (Provider::Openai, Dialect::OpenAi, "embeddings"),
            EmbeddingProvider::AzureOpenai => (Provider::AzureOpenai, Dialect::OpenAi, "embeddings"),
            EmbeddingProvider::Ollama => (Provider::Ollama, Dialect::Ollama, "api/embed"),
            EmbeddingProvider::Hash => {
                return Err(RetrievalError::Setup("provider `hash` has no endpoint".into()));
            }
        };
        let config = EndpointConfig {
            provider,
            name: settings.model.clone(),
            endpoint: settings.endpoint.clone(),
            api_key: settings.api_key.clone(),
            api_version: settings.api_version.clone(),
            block: settings.block.to_owned(),
            at: None,
        };
        let endpoint = Endpoint::resolve(client, config, operation, settings.rpm, env, options)?;
        let defaults = model_defaults(&settings.model);
        let configured = settings
            .dimensions
            .and_then(|length| usize::try_from(length).ok());
        Ok(Self {
            id: EmbedderId {
                provider: settings.provider.as_str().to_owned(),
                model: settings.model.clone(),
                dimensions: configured.or(defaults.dimensions),
            },
            endpoint,
            dialect,
            defaults,
            configured: settings.dimensions,
            concurrency: options.concurrency.max(1),
            observed: OnceLock::new(),
            cuts: AtomicBool::new(false),
            most_texts: AtomicUsize::new(usize::MAX),
        })
    }

    /// Asks for the vectors of a batch; one that the server refuses is asked for in halves, because many servers take fewer
    /// texts than others, and say so in words of their own. If a single text is at fault, its half is refused too.
    fn batch_or_halves<'a>(
        &'a self,
        texts: &'a [&'a str],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<CountedVectors, RetrievalError>> {
        async move {
            let most = self.most_texts.load(Ordering::Relaxed);
            if texts.len() > most {
                let mut whole = CountedVectors {
                    vectors: Vec::with_capacity(texts.len()),
                    tokens: Some(0),
                };
                for part in texts.chunks(most) {
                    append(&mut whole, self.batch_or_halves(part, purpose).await?);
                }
                return Ok(whole);
            }
            match self.batch(texts, purpose).await {
                Err(RetrievalError::Refused { .. }) if texts.len() > 1 => {
                    let middle = texts.len().div_ceil(2);
                    let (first, second) = texts.split_at(middle);
                    let mut whole = self.batch_or_halves(first, purpose).await?;
                    append(&mut whole, self.batch_or_halves(second, purpose).await?);
                    let before = self.most_texts.fetch_min(middle, Ordering::Relaxed);
                    if before > middle {
                        tracing::warn!(
                            embedder = %self.id,
                            "the endpoint refuses {} texts at once; it is asked for {middle} from now on",
                            texts.len()
                        );
                    }
                    Ok(whole)
                }
                answer => answer,
            }
        }
        .boxed()
    }

    async fn batch(&self, texts: &[&str], purpose: Purpose) -> Result<CountedVectors, RetrievalError> {
        let prefix = match purpose {
            Purpose::Passage => self.defaults.passage,
            Purpose::Query => self.defaults.query,
        };
        let input: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let cuts = self.cuts.load(Ordering::Relaxed);
        let answer = match self.ask(&input, cuts).await {
            Err(failure) if !cuts && self.is_too_long(&failure) => {
                if !self.cuts.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        embedder = %self.id,
                        "texts longer than the model's limit are truncated before embedding; use smaller chunks"
                    );
                }
                self.ask(&input, true).await
            }
            answer => answer,
        };
        let CountedVectors { mut vectors, tokens } = answer.map_err(|failure| self.to_error(failure))?;
        let wanted = self.id.dimensions.or(self.observed.get().copied());
        let length = wire::check(&mut vectors, texts.len(), wanted)
            .map_err(|what| self.to_error(self.endpoint.unusable(&what)))?;
        if *self.observed.get_or_init(|| length) != length {
            let what = format!("vectors of {length} dimensions after vectors of another length");
            return Err(self.to_error(self.endpoint.unusable(&what)));
        }
        Ok(CountedVectors { vectors, tokens })
    }

    async fn ask(&self, input: &[String], cuts: bool) -> Result<CountedVectors, Failure> {
        let mut body = JsonMap::new();
        body.insert("model".to_owned(), Value::from(self.id.model.as_str()));
        body.insert("input".to_owned(), Value::from(input));
        if let Some(dimensions) = self.configured {
            body.insert("dimensions".to_owned(), Value::from(dimensions));
        }
        if self.dialect == Dialect::Ollama {
            body.insert("truncate".to_owned(), Value::from(cuts));
        }
        let body = Value::Object(body);
        let (tokens, vectors) = match self.dialect {
            Dialect::OpenAi => {
                let answer: OpenAiAnswer = self.endpoint.ask(&body).await?;
                (answer.tokens(), answer.vectors())
            }
            Dialect::Ollama => {
                let answer: OllamaAnswer = self.endpoint.ask(&body).await?;
                (answer.tokens(), Ok(answer.vectors()))
            }
        };
        let vectors = vectors.map_err(|what| self.endpoint.unusable(&what))?;
        Ok(CountedVectors { vectors, tokens })
    }

    /// Ollama truncates long texts silently unless the request forbids it; then it returns an error.
    fn is_too_long(&self, failure: &Failure) -> bool {
        self.dialect == Dialect::Ollama
            && failure.refused
            && failure.reason.message.contains("context length")
    }

    fn to_error(&self, failure: Failure) -> RetrievalError {
        let embedder = self.id.to_string();
        if failure.refused {
            return RetrievalError::Refused {
                embedder,
                reason: Box::new(failure.reason),
            };
        }
        RetrievalError::Embedding {
            embedder,
            reason: Box::new(failure.reason),
            retryable: failure.retryable,
            retry_after: failure.retry_after,
        }
    }

    fn batches(&self, texts: &[&str]) -> Vec<Range<usize>> {
        let most = match self.dialect {
            Dialect::OpenAi => BATCH_TEXTS,
            Dialect::Ollama => OLLAMA_BATCH_TEXTS,
        };
        let fit = self
            .id
            .dimensions
            .map_or(most, |length| ANSWER_BYTES / (length.max(1) * NUMBER_BYTES));
        let most = most.min(fit).min(self.most_texts.load(Ordering::Relaxed));
        batches(texts, most.max(1), BATCH_BYTES)
    }
}

#[async_trait]
impl Embedder for HttpEmbedder {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        Ok(self.embed_counted(texts, purpose).await?.vectors)
    }

    async fn embed_counted(
        &self,
        texts: &[&str],
        purpose: Purpose,
    ) -> Result<CountedVectors, RetrievalError> {
        if let Some(blank) = texts.iter().position(|text| text.trim().is_empty()) {
            return Err(RetrievalError::Refused {
                embedder: self.id.to_string(),
                reason: format!("text {} of {} is blank", blank + 1, texts.len()).into(),
            });
        }
        let mut requests = Vec::new();
        for range in self.batches(texts) {
            if let Some(texts) = texts.get(range) {
                requests.push(self.batch_or_halves(texts, purpose));
            }
        }
        let parts: Vec<CountedVectors> = stream::iter(requests)
            .buffered(self.concurrency)
            .try_collect()
            .await?;
        Ok(CountedVectors {
            tokens: parts.iter().map(|part| part.tokens).sum(),
            vectors: parts.into_iter().flat_map(|part| part.vectors).collect(),
        })
    }
}

fn append(whole: &mut CountedVectors, part: CountedVectors) {
    whole.vectors.extend(part.vectors);
    whole.tokens = whole.tokens.zip(part.tokens).map(|(one, other)| one + other);
}

/// Batches of neighbouring texts, limited by count and bytes; a longer text forms a batch of its own.
fn batches(texts: &[&str], most: usize, bytes: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut size = 0;
    for (at, text) in texts.iter().enumerate() {
        if at > start && (at - start == most || size + text.len() > bytes) {
            batches.push(start..at);
            start = at;
            size = 0;
        }
        size += text.len();
    }
    if start < texts.len() {
        batches.push(start..texts.len());
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_count_and_size() {
        let texts = ["aa", "bb", "cc", "dddddddddd", "e", "f", "g"];
        assert_eq!(batches(&texts, 2, 100), [0..2, 2..4, 4..6, 6..7]);
        assert_eq!(batches(&texts, 9, 4), [0..2, 2..3, 3..4, 4..7]);
        assert_eq!(batches(&[], 9, 4), Vec::<Range<usize>>::new());
    }
}
