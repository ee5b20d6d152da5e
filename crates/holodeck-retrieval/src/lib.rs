//! Finding passages: embedding, storing, searching, ingesting.
//!
//! An [`Embedder`] makes vectors, a [`VectorStore`] keeps [`Entry`]s and finds them. Everything above works on these two
//! traits, so that a store or an embedder is one file.

mod cache;
mod chroma;
mod context;
mod embedded;
mod embedder;
mod endpoint;
mod entry;
mod error;
mod ingest;
mod migrate;
mod okapi;
mod open;
mod payload;
mod phrases;
#[cfg(feature = "postgres")]
mod postgres;
mod qdrant;
mod rerank;
mod rest;
mod scan;
mod search;
mod searched;
mod settings;
mod store;
mod vector;

pub use cache::ModelCache;
pub use chroma::ChromaStore;
pub use context::{ContextRequest, ContextWriter, Contexts};
pub use embedded::EmbeddedStore;
pub use embedder::{CachedEmbedder, Embedder, EmbedderId, HashEmbedder, HttpEmbedder, Purpose, embedder};
pub use endpoint::EndpointOptions;
pub use entry::{Entry, Filter, Passage, Scored, SourceState};
pub use error::RetrievalError;
pub use ingest::{
    Content, Corpus, Cutting, FileCorpus, FileSource, IngestEvent, IngestMode, IngestPlan, IngestProgress,
    IngestReport, Ingestor, Listed, Piece, SourceFailure,
};
pub use migrate::{MoveProgress, MoveReport, migrate};
pub use okapi::InMemoryKeywords;
pub use open::open_server;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use qdrant::QdrantStore;
pub use rerank::{HttpReranker, Reranker};
pub use search::{Hit, SearchRequest, SearchResults, Searcher, Weights, render_hits};
pub use store::{IndexInfo, IndexStats, KeywordSearch, VectorStore};
