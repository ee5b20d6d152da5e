//! How similar texts are to a question by what they mean. It says nothing about who computes it.

use async_trait::async_trait;

use holodeck_model::Spent;

use crate::BackendError;

/// How similar texts are to a question, and what it cost to find out.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Compared {
    /// The cosine of the vectors of each text and of the question, in millionths.
    pub cosines: Vec<i64>,
    /// The calls for it. Their tokens are unknown if an answer does not say them.
    pub spent: Spent,
}

/// Compares texts by what they mean.
#[async_trait]
pub trait TextSimilarity: Send + Sync {
    /// The model that computes it, as reports show it.
    fn name(&self) -> &str;

    /// Whether nothing is asked for it.
    fn is_local(&self) -> bool;

    /// How similar each of `texts` is to `query`, in their order.
    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError>;
}
