use std::time::Duration;

/// Why an index can't be built, opened or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// The embedder could not be asked, or answered something else than vectors.
    #[error("embedding with {embedder}: {reason}")]
    Embedding {
        /// Which embedder.
        embedder: String,
        /// Why.
        reason: String,
        /// Whether asking again may help.
        retryable: bool,
        /// How long to wait before that.
        retry_after: Option<Duration>,
    },
    /// The embedder has something against a text, not against being asked.
    #[error("embedding with {embedder}: the text is refused: {reason}")]
    Refused {
        /// Which embedder.
        embedder: String,
        /// Why.
        reason: String,
    },
    /// A chunk's context could not be written.
    #[error("context by {writer}: {reason}")]
    Context {
        /// Which model.
        writer: String,
        /// Why.
        reason: String,
    },
    /// The reranker could not be asked, or answered something else than scores.
    #[error("reranking with {reranker}: {reason}")]
    Rerank {
        /// Which one.
        reranker: String,
        /// Why.
        reason: String,
        /// Whether asking again may help.
        retryable: bool,
    },
    /// A server can't even be asked: its address or key is missing or wrong.
    #[error("{0}")]
    Setup(String),
    /// The index was made in another way than it is used now.
    #[error("the index was built with {found}, not with {wanted}\n\nhint: `--force-ingest` builds it anew")]
    Mixed {
        /// As the index says.
        found: String,
        /// As the configuration says.
        wanted: String,
    },
    /// The store.
    #[error("{store}: {reason}")]
    Store {
        /// Which store, without anything secret.
        store: String,
        /// Why.
        reason: String,
    },
    /// A query that can't be answered as asked.
    #[error("{0}")]
    Query(String),
    /// It was stopped.
    #[error("cancelled")]
    Cancelled,
}
