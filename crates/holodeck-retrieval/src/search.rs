//! Searches an index for a tool or a person.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::future::BoxFuture;
use holodeck_model::{JsonMap, SearchMode};
use serde::{Deserialize, Serialize};

use crate::{
    Embedder, Filter, InMemoryKeywords, KeywordSearch, Purpose, Reranker, RetrievalError, Scored,
    SourceState, VectorStore,
};

mod exact;
mod fusion;
mod render;

use exact::exact_phrases;
pub use fusion::Fusion;
use fusion::fuse;
pub use render::render_hits;

/// How deep each of several rankings is read: a multiple of the requested number, and a minimum.
const DEPTH: usize = 4;
const LEAST_DEPTH: usize = 50;

/// A search request.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    /// The question.
    pub query: String,
    /// How passages are found, which defines the scale of scores.
    ///
    /// - semantic: the cosine similarity of question and passage, at most 1.
    ///   be: 1 is a passage that ranks first in every ranking used.
    /// - keyword: the same with BM25 alone: `(rrf_k + 1) / (rrf_k + rank)`.
    /// - exact: 1. A passage holds each quoted phrase and each section number of the question (the whole question if
    ///   there are none); those that hold them more often come first.
    ///
    /// With a reranker the score is the reranker's.
    pub mode: SearchMode,
    /// Maximum number of passages.
    pub limit: usize,
    /// Which passages may be found.
    pub filter: Filter,
    /// Leaves out passages with a lower score.
    pub min_score: Option<f64>,
    /// The weights of the rankings in hybrid search.
    pub weights: Weights,
    /// How little the first ranks count over the next ones.
    pub rrf_k: u32,
}

impl SearchRequest {
    /// The default settings.
    pub fn new(query: impl Into<String>, mode: SearchMode, limit: usize) -> Self {
        Self {
            query: query.into(),
            mode,
            limit,
            filter: Filter::default(),
            min_score: None,
            weights: Weights::default(),
            rrf_k: 60,
        }
    }
}

/// The weights of the rankings in hybrid search. A ranking of weight 0 is not computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Semantic similarity.
    pub semantic: f64,
    /// Keywords.
    pub keyword: f64,
    /// Quoted phrases and section numbers, if the question has any.
    pub exact: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            semantic: 0.5,
            keyword: 0.3,
            exact: 0.2,
        }
    }
}

/// Search results, as `holodeck index search --json` prints them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchResults {
    /// The question.
    pub query: String,
    /// How passages were found.
    pub mode: SearchMode,
    /// Duration, including embedding the question.
    pub search_ms: f64,
    /// Best first.
    pub hits: Vec<Hit>,
}

/// A passage in the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Greater is better; see [`SearchRequest::mode`].
    pub score: f64,
    /// Its text.
    pub text: String,
    /// Its source.
    pub source: String,
    /// Its id in the index.
    pub id: String,
    /// Its place in the document, and the fields of records.
    pub metadata: JsonMap,
}

impl From<Scored> for Hit {
    fn from(Scored { score, passage }: Scored) -> Self {
        Self {
            score,
            text: passage.text,
            source: passage.source,
            id: passage.id,
            metadata: passage.metadata,
        }
    }
}

/// Searches one index.
pub struct Searcher {
    store: Arc<dyn VectorStore>,
    embedder: Arc<dyn Embedder>,
    reranker: Option<Arc<dyn Reranker>>,
    /// For a store without keyword search: the in-memory replacement, and the sources it was built from.
    words: Mutex<Option<(Vec<SourceState>, Arc<InMemoryKeywords>)>>,
}

impl Searcher {
    /// Uses the embedder that built the index.
    pub fn new(store: Arc<dyn VectorStore>, embedder: Arc<dyn Embedder>) -> Self {
        Self {
            store,
            embedder,
            reranker: None,
            words: Mutex::default(),
        }
    }

    /// Reranks results with `reranker`.
    #[must_use]
    pub fn reranked_by(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// The best passages for a question, ties by id.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResults, RetrievalError> {
        self.search_with(request, self.reranker.as_deref()).await
    }

    /// As [`search`](Self::search), with this reranker in place of the searcher's own.
    pub fn search_with<'a>(
        &'a self,
        request: &'a SearchRequest,
        reranker: Option<&'a dyn Reranker>,
    ) -> BoxFuture<'a, Result<SearchResults, RetrievalError>> {
        Box::pin(self.search_unboxed(request, reranker))
    }

    async fn search_unboxed(
        &self,
        request: &SearchRequest,
        reranker: Option<&dyn Reranker>,
    ) -> Result<SearchResults, RetrievalError> {
        let started = Instant::now();
        let depth = match (reranker, request.mode) {
            (None, SearchMode::Semantic | SearchMode::Keyword | SearchMode::Exact) => request.limit,
            _ => request.limit.saturating_mul(DEPTH).max(LEAST_DEPTH),
        };
        let mut found = self.find(request, depth).await?;
        if let Some(reranker) = reranker {
            found = rerank(reranker, &request.query, found).await?;
        }
        found.retain(|scored| request.min_score.is_none_or(|least| scored.score >= least));
        found.truncate(request.limit);
        Ok(SearchResults {
            query: request.query.clone(),
            mode: request.mode,
            search_ms: (started.elapsed().as_secs_f64() * 1e6).round() / 1e3,
            hits: found.into_iter().map(Hit::from).collect(),
        })
    }

    async fn find(&self, request: &SearchRequest, depth: usize) -> Result<Vec<Scored>, RetrievalError> {
        if request.query.trim().is_empty() {
            return Err(RetrievalError::Query("the query is empty".to_owned()));
        }
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        match request.mode {
            SearchMode::Semantic => self.semantic(request, depth).await,
            SearchMode::Keyword => {
                let ranking = self.keyword(request, depth).await?;
                Ok(fuse([(1.0, ranking)], request.rrf_k))
            }
            SearchMode::Exact => {
                let mut phrases = exact_phrases(&request.query);
                if phrases.is_empty() {
                    phrases.push(request.query.clone());
                }
                let mut found = self.exact(&phrases, request, depth).await?;
                for scored in &mut found {
                    scored.score = 1.0;
                }
                Ok(found)
            }
            SearchMode::Hybrid => self.hybrid(request, depth).await,
        }
    }

    async fn hybrid(&self, request: &SearchRequest, depth: usize) -> Result<Vec<Scored>, RetrievalError> {
        let Weights {
            semantic,
            keyword,
            exact,
        } = request.weights;
        let phrases = exact_phrases(&request.query);
        let of = |weight: f64| weight > 0.0;
        let semantic_search = async {
            if of(semantic) {
                self.semantic(request, depth).await.map(Some)
            } else {
                Ok(None)
            }
        };
        let word_search = async {
            let keyword = if of(keyword) {
                Some(self.keyword(request, depth).await?)
            } else {
                None
            };
            let asked = of(exact) && !phrases.is_empty();
            let exact = if asked {
                Some(self.exact(&phrases, request, depth).await?)
            } else {
                None
            };
            Ok((keyword, exact))
        };
        let (by_meaning, (by_words, to_the_letter)) = futures::try_join!(semantic_search, word_search)?;
        let rankings = [
            (semantic, by_meaning),
            (keyword, by_words),
            (exact, to_the_letter),
        ];
        let rankings = rankings
            .into_iter()
            .filter_map(|(weight, ranking)| Some((weight, ranking?)));
        Ok(fuse(rankings, request.rrf_k))
    }

    async fn semantic(&self, request: &SearchRequest, depth: usize) -> Result<Vec<Scored>, RetrievalError> {
        let text = [request.query.as_str()];
        let (info, vectors) =
            futures::try_join!(self.store.info(), self.embedder.embed(&text, Purpose::Query))?;
        let Some(info) = info else {
            return Ok(Vec::new());
        };
        let wanted = self.embedder.id();
        if (&info.embedder.provider, &info.embedder.model) != (&wanted.provider, &wanted.model) {
            return Err(RetrievalError::Mixed {
                found: info.embedder.to_string(),
                wanted: wanted.to_string(),
            });
        }
        let [vector] = vectors.as_slice() else {
            return Err(RetrievalError::Embedding {
                embedder: wanted.to_string(),
                reason: format!("{} vectors for one text", vectors.len()).into(),
                retryable: false,
                retry_after: None,
            });
        };
        self.store.nearest(vector, depth, &request.filter).await
    }

    async fn keyword(&self, request: &SearchRequest, depth: usize) -> Result<Vec<Scored>, RetrievalError> {
        match self.store.keywords() {
            Some(keywords) => keywords.ranked(&request.query, depth, &request.filter).await,
            None => {
                self.words()
                    .await?
                    .ranked(&request.query, depth, &request.filter)
                    .await
            }
        }
    }

    async fn exact(
        &self,
        phrases: &[String],
        request: &SearchRequest,
        depth: usize,
    ) -> Result<Vec<Scored>, RetrievalError> {
        match self.store.keywords() {
            Some(keywords) => keywords.containing(phrases, depth, &request.filter).await,
            None => {
                self.words()
                    .await?
                    .containing(phrases, depth, &request.filter)
                    .await
            }
        }
    }

    /// Built from all entries of the store, and rebuilt when these change.
    async fn words(&self) -> Result<Arc<InMemoryKeywords>, RetrievalError> {
        let sources = self.store.sources().await?;
        let kept = || self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, words)) = kept().as_ref()
            && *of == sources
        {
            return Ok(Arc::clone(words));
        }
        let words = Arc::new(InMemoryKeywords::of(self.store.as_ref()).await?);
        *kept() = Some((sources, Arc::clone(&words)));
        Ok(words)
    }
}

async fn rerank(
    reranker: &dyn Reranker,
    query: &str,
    mut found: Vec<Scored>,
) -> Result<Vec<Scored>, RetrievalError> {
    if found.is_empty() {
        return Ok(found);
    }
    let texts: Vec<&str> = found.iter().map(|scored| scored.passage.text.as_str()).collect();
    let scores = reranker.rerank(query, &texts).await?;
    if scores.len() != found.len() || scores.iter().any(|score| !score.is_finite()) {
        let reason = format!(
            "{}: expected one score for each of {} passages",
            reranker.describe(),
            found.len()
        );
        return Err(RetrievalError::Query(reason));
    }
    for (scored, score) in found.iter_mut().zip(scores) {
        scored.score = score;
    }
    // Stable: equally scored passages keep their order.
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(found)
}

#[cfg(test)]
mod tests;
