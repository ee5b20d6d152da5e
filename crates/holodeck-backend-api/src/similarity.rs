//! How similar texts are to a question by what they mean. It says nothing about who computes it.

use async_trait::async_trait;

use crate::BackendError;

/// Compares texts by what they mean.
#[async_trait]
pub trait TextSimilarity: Send + Sync {
    /// The model that computes it, as reports show it.
    fn name(&self) -> &str;

    /// Whether nothing is asked for it.
    fn is_local(&self) -> bool;

    /// How similar each of `texts` is to `query`, in their order: the cosine of their vectors, in millionths.
    async fn compare(&self, texts: &[String], query: &str) -> Result<Vec<i64>, BackendError>;
}
