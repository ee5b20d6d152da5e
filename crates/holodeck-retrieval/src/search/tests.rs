//! Tests of the search modes, their scores, weights and reranking on small indexes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use holodeck_model::SearchMode;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{SearchRequest, SearchResults, Searcher, Weights, render_hits};
use crate::{
    EmbeddedStore, Embedder as _, EmbedderId, Entry, Filter, HashEmbedder, IndexInfo, KeywordSearch, Passage,
    Reranker, RetrievalError, Scored, SourceState, VectorStore,
};

const TEXTS: [(&str, &str); 5] = [
    ("refunds.md", "Refunds are paid within thirty days of the return."),
    ("refunds.md", "Section 4.2 names what is never refunded."),
    (
        "shipping.md",
        "Shipping is free within the country; returns are paid by the buyer.",
    ),
    ("shipping.md", "Parcels are sent daily."),
    (
        "terms.md",
        "Our terms, section 4.25: a refund takes no longer than thirty days.",
    ),
];

fn embedder() -> HashEmbedder {
    HashEmbedder::new(256)
}

async fn store() -> Arc<dyn VectorStore> {
    let store = EmbeddedStore::in_memory().await.unwrap();
    let embedder = embedder();
    let info = IndexInfo {
        embedder: embedder.id().clone(),
        dimensions: 256,
        chunker: "plain".to_owned(),
    };
    store.prepare(&info).await.unwrap();
    for name in ["refunds.md", "shipping.md", "terms.md"] {
        let texts = TEXTS
            .iter()
            .enumerate()
            .filter(|(_, (source, _))| *source == name);
        let entries: Vec<Entry> = texts
            .map(|(at, (source, text))| Entry {
                passage: Passage {
                    id: at.to_string(),
                    source: (*source).to_owned(),
                    text: (*text).to_owned(),
                    context: None,
                    metadata: json!({"page": at}).as_object().unwrap().clone(),
                },
                vector: embedder.vector(text),
            })
            .collect();
        let state = SourceState {
            source: name.to_owned(),
            hash: "1".to_owned(),
            passages: entries.len(),
        };
        store.replace(&state, &entries).await.unwrap();
    }
    Arc::new(store)
}

/// A store without keyword search.
struct WithoutKeywords(Arc<dyn VectorStore>);

#[async_trait]
impl VectorStore for WithoutKeywords {
    fn describe(&self) -> String {
        self.0.describe()
    }
    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError> {
        self.0.info().await
    }
    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError> {
        self.0.prepare(info).await
    }
    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        self.0.sources().await
    }
    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError> {
        self.0.put(parts).await
    }
    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError> {
        self.0.remove(sources).await
    }
    async fn clear(&self) -> Result<(), RetrievalError> {
        self.0.clear().await
    }
    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        self.0.nearest(query, limit, filter).await
    }
    fn keywords(&self) -> Option<&dyn KeywordSearch> {
        None
    }
    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>> {
        self.0.entries()
    }
}

async fn searcher() -> Searcher {
    Searcher::new(store().await, Arc::new(embedder()))
}

async fn find(searcher: &Searcher, request: &SearchRequest) -> SearchResults {
    let mut results = searcher.search(request).await.unwrap();
    results.search_ms = 0.0;
    results
}

fn ids(results: &SearchResults) -> Vec<&str> {
    results.hits.iter().map(|hit| hit.id.as_str()).collect()
}

fn request(query: &str, mode: SearchMode) -> SearchRequest {
    SearchRequest::new(query, mode, 3)
}

#[tokio::test]
async fn a_model_reads_scores_sources_and_texts() {
    let searcher = searcher().await;
    let results = find(&searcher, &request("thirty days refund", SearchMode::Hybrid)).await;
    insta::assert_snapshot!(render_hits(&results));
    insta::assert_json_snapshot!(results);
    let none = find(&searcher, &request("xylophone", SearchMode::Keyword)).await;
    assert_eq!(
        render_hits(&none),
        "No relevant results found for query: xylophone"
    );
}

#[tokio::test]
async fn semantic_scores_are_similarities() {
    let searcher = searcher().await;
    let mut asked = request(TEXTS[3].1, SearchMode::Semantic);
    let found = find(&searcher, &asked).await;
    assert_eq!(ids(&found)[0], "3");
    assert!((found.hits[0].score - 1.0).abs() < 1e-6);
    asked.min_score = Some(0.9);
    assert_eq!(ids(&find(&searcher, &asked).await), ["3"]);
    asked.filter = Filter {
        equal: vec![("source".to_owned(), json!("refunds.md"))],
    };
    asked.min_score = None;
    assert_eq!(find(&searcher, &asked).await.hits.len(), 2);
}

#[tokio::test]
async fn keyword_scores_are_ranks() {
    let found = find(&searcher().await, &request("thirty days", SearchMode::Keyword)).await;
    let scores: Vec<f64> = found.hits.iter().map(|hit| hit.score).collect();
    assert!(
        scores
            .iter()
            .zip([1.0, 61.0 / 62.0])
            .all(|(found, wanted)| (found - wanted).abs() < 1e-12),
        "{scores:?}"
    );
}

#[tokio::test]
async fn exact_search_is_to_the_letter() {
    let searcher = searcher().await;
    let exact = async |query: &str| {
        let found = find(&searcher, &request(query, SearchMode::Exact)).await;
        assert!(
            found
                .hits
                .iter()
                .all(|hit| hit.score.to_bits() == 1.0_f64.to_bits())
        );
        ids(&found).join(" ")
    };
    assert_eq!(exact("what does \"Thirty  Days\" mean?").await, "0 4");
    assert_eq!(exact("what is in 4.2?").await, "1");
    assert_eq!(exact("sent daily").await, "3");
    assert_eq!(exact("\"thirty days\" and \"section 4.25\"").await, "4");
    assert_eq!(exact("\"thirty days\" and \"nowhere\"").await, "");
}

#[tokio::test]
async fn hybrid_counts_each_ranking_by_its_weight() {
    let searcher = searcher().await;
    let mut asked = request("what does \"4.2\" say of refunds", SearchMode::Hybrid);
    let found = find(&searcher, &asked).await;
    assert_eq!(ids(&found)[0], "1");
    asked.weights = Weights {
        semantic: 0.0,
        keyword: 0.0,
        exact: 1.0,
    };
    let found = find(&searcher, &asked).await;
    assert_eq!(ids(&found), ["1"]);
    assert!((found.hits[0].score - 1.0).abs() < 1e-12);
    asked.weights = Weights {
        semantic: 1.0,
        keyword: 0.0,
        exact: 0.0,
    };
    let semantic = find(&searcher, &request(&asked.query, SearchMode::Semantic)).await;
    assert_eq!(ids(&find(&searcher, &asked).await), ids(&semantic));
    asked.min_score = Some(0.99);
    assert_eq!(find(&searcher, &asked).await.hits.len(), 1);
}

#[tokio::test]
async fn a_store_without_words_gets_them_in_memory() {
    let inner = store().await;
    let searcher = Searcher::new(
        Arc::new(WithoutKeywords(Arc::clone(&inner))),
        Arc::new(embedder()),
    );
    assert_eq!(
        ids(&find(&searcher, &request("thirty days", SearchMode::Keyword)).await),
        ["0", "4"]
    );
    assert_eq!(
        ids(&find(&searcher, &request("\"section 4.2\"", SearchMode::Exact)).await),
        ["1"]
    );
    assert_eq!(
        ids(&find(&searcher, &request("\"section 4.2\"", SearchMode::Hybrid)).await)[0],
        "1"
    );
    inner.remove(&["refunds.md".to_owned()]).await.unwrap();
    assert_eq!(
        ids(&find(&searcher, &request("thirty days", SearchMode::Keyword)).await),
        ["4"]
    );
}

/// Prefers terms, then shipping.
struct FixedPreference;

#[async_trait]
impl Reranker for FixedPreference {
    fn describe(&self) -> String {
        "a picky one".to_owned()
    }
    async fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, RetrievalError> {
        let texts = if query.starts_with("short") { &[] } else { texts };
        let score = |text: &&str| match text.split_once(' ') {
            Some(("Our", _)) => 0.9,
            Some(("Shipping", _)) => 0.5,
            _ => 0.1,
        };
        Ok(texts.iter().map(score).collect())
    }
}

#[tokio::test]
async fn a_reranker_has_the_last_word() {
    let searcher = searcher().await.reranked_by(Arc::new(FixedPreference));
    let mut asked = request("refunds", SearchMode::Semantic);
    asked.limit = 2;
    assert_eq!(ids(&find(&searcher, &asked).await), ["4", "2"]);
    asked.min_score = Some(0.6);
    assert_eq!(ids(&find(&searcher, &asked).await), ["4"]);
    let refused = searcher
        .search(&request("short", SearchMode::Semantic))
        .await
        .unwrap_err();
    insta::assert_snapshot!(refused, @"a picky one: expected one score for each of 5 passages");
}

#[tokio::test]
async fn questions_that_cannot_be_answered_are_refused() {
    let searcher = searcher().await;
    for mode in [
        SearchMode::Semantic,
        SearchMode::Keyword,
        SearchMode::Hybrid,
        SearchMode::Exact,
    ] {
        let refused = searcher.search(&request(" \n", mode)).await.unwrap_err();
        assert_eq!(refused.to_string(), "the query is empty");
    }
    let id = EmbedderId {
        model: "other".to_owned(),
        ..embedder().id().clone()
    };
    let other = Searcher::new(searcher.store, Arc::new(Renamed(embedder(), id)));
    let mixed = other
        .search(&request("refunds", SearchMode::Hybrid))
        .await
        .unwrap_err();
    insta::assert_snapshot!(mixed.explanation().text(), @r"
    the index was built with hash words-1 (256 dimensions), not with hash other (256 dimensions)

    hint: rebuild it with `--force-ingest`
    ");
    assert!(
        other
            .search(&request("refunds", SearchMode::Keyword))
            .await
            .is_ok(),
        "words need no embedder"
    );
}

struct Renamed(HashEmbedder, EmbedderId);

#[async_trait]
impl crate::Embedder for Renamed {
    fn id(&self) -> &EmbedderId {
        &self.1
    }
    async fn embed(&self, texts: &[&str], purpose: crate::Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        self.0.embed(texts, purpose).await
    }
}
