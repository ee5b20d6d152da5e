//! Finding passages: embedding, storing, searching, ingesting.
//!
//! An [`Embedder`] makes vectors, a [`VectorStore`] keeps [`Entry`]s and finds them. Everything above works on these two
//! traits, so that a store or an embedder is one file.

mod embedder;
mod entry;
mod error;
mod rerank;
mod store;

pub use embedder::{Embedder, EmbedderId, HashEmbedder, Purpose};
pub use entry::{Entry, Filter, Passage, Scored, SourceState};
pub use error::RetrievalError;
pub use rerank::Reranker;
pub use store::{IndexInfo, IndexStats, KeywordSearch, VectorStore};
