use async_trait::async_trait;

use crate::RetrievalError;

mod http;

pub use http::HttpReranker;

/// Judges passages that were found against the question.
#[async_trait]
pub trait Reranker: Send + Sync {
    /// What it is called in messages.
    fn describe(&self) -> String;

    /// How well each text answers the query, greater is better: one score per text, in their order.
    async fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, RetrievalError>;
}
