#![doc = include_str!("../README.md")]

mod bm25;
mod cache;
mod chroma;
mod context;
mod embedded;
mod embedder;
mod endpoint;
mod entry;
mod error;
mod ingest;
mod keyword_text;
mod manifest;
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
mod settings;
mod sqlite_file;
mod store;
mod vector;

pub use bm25::{Bm25, Bm25Kind};
pub use cache::ModelCache;
pub use chroma::ChromaStore;
pub use context::{ContextRequest, ContextWriter, Contexts};
pub use embedded::EmbeddedStore;
pub use embedder::{CachedEmbedder, CountedVectors, Embedder, EmbedderId, HashEmbedder, Purpose, embedder};
pub use endpoint::EndpointOptions;
#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_documents as documents, holodeck_model as model};

pub use holodeck_documents::{ChunkOptions, ConvertOptions, Converter, Isolation};
pub use holodeck_model::SearchMode;
pub use tokio_util::sync::CancellationToken;

pub use entry::{Entry, Filter, Passage, Scored, SourceState};
pub use error::RetrievalError;
pub use ingest::{
    Content, Corpus, Cutting, FileCorpus, FileSource, IngestEvent, IngestMode, IngestPlan, IngestProgress,
    IngestReport, Ingestor, ListedSource, Piece,
};
pub use manifest::FileManifest;
pub use migrate::{MoveProgress, migrate};
pub use okapi::InMemoryKeywords;
pub use open::open_server;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use qdrant::QdrantStore;
pub use rerank::{HttpReranker, Reranker, read_scores, serves_rerank};
pub use scan::product;
pub use search::{Fusion, Hit, SearchRequest, SearchResults, Searcher, Weights, render_hits};
pub use store::{IndexInfo, IndexStats, KeywordSearch, VectorStore};
