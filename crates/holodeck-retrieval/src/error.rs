//! The reasons for which an index cannot be built, opened or searched, with a hint where one is known.

use std::time::Duration;

use holodeck_backend_api::Explanation;

/// Why an index can't be built, opened or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// The embedder could not be reached, or did not return vectors.
    #[error("embedding with {embedder}: {reason}")]
    Embedding {
        /// The embedder.
        embedder: String,
        /// The reason.
        reason: Box<Explanation>,
        /// Whether a retry may help.
        retryable: bool,
        /// How long to wait before a retry.
        retry_after: Option<Duration>,
    },
    /// The embedder rejects a text, not the request.
    #[error("embedding with {embedder}: the text is refused: {reason}")]
    Refused {
        /// The embedder.
        embedder: String,
        /// The reason.
        reason: Box<Explanation>,
    },
    /// A chunk's context could not be written.
    #[error("context by {writer}: {reason}")]
    Context {
        /// The model.
        writer: String,
        /// The reason.
        reason: Box<Explanation>,
    },
    /// The reranker could not be reached, or did not return scores.
    #[error("reranking with {reranker}: {reason}")]
    Rerank {
        /// The reranker.
        reranker: String,
        /// The reason.
        reason: Box<Explanation>,
        /// Whether a retry may help.
        retryable: bool,
    },
    /// A server is not configured: its address or key is missing or wrong.
    #[error("{0}")]
    Setup(Box<Explanation>),
    /// The index was built with other settings than the current ones.
    #[error("the index was built with {found}, not with {wanted}")]
    Mixed {
        /// The settings of the index.
        found: String,
        /// The settings of the configuration.
        wanted: String,
    },
    /// The store failed.
    #[error("{store}: {reason}")]
    Store {
        /// The store, without secrets.
        store: String,
        /// The reason.
        reason: String,
    },
    /// A query that can't be answered.
    #[error("{0}")]
    Query(String),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl RetrievalError {
    /// An error in what is needed before the first request.
    pub fn setup(explanation: impl Into<Explanation>) -> Self {
        Self::Setup(Box::new(explanation.into()))
    }

    /// Message and hint as separate fields.
    pub fn explanation(&self) -> Explanation {
        let hint = match self {
            Self::Embedding { reason, .. }
            | Self::Refused { reason, .. }
            | Self::Context { reason, .. }
            | Self::Rerank { reason, .. }
            | Self::Setup(reason) => reason.hint.clone(),
            Self::Mixed { .. } => Some("rebuild it with `--force-ingest`".to_owned()),
            Self::Store { .. } | Self::Query(_) | Self::Cancelled => None,
        };
        Explanation {
            hint,
            ..Explanation::new(self.to_string())
        }
    }
}
