//! The contract of models that score search results against the question.

use async_trait::async_trait;

use crate::RetrievalError;

mod http;

pub use http::{HttpReranker, read_scores, serves_rerank};

/// Scores search results against the question.
#[async_trait]
pub trait Reranker: Send + Sync {
    /// Its name in messages.
    fn describe(&self) -> String;

    /// How well each text answers the query, greater is better: one score per text, in order.
    async fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, RetrievalError>;
}
