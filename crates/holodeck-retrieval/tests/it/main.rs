//! Stores, embedders and ingestion against real servers, files and processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests"
)]

mod api;
mod chroma;
mod conformance;
mod corpus;
mod embedded;
mod embedders;
mod files;
mod ingest;
mod kill;
mod killed;
mod migrate;
#[cfg(feature = "postgres")]
mod postgres;
mod qdrant;
mod rerankers;
