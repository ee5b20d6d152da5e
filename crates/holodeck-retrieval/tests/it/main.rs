//! Stores, embedders and ingestion against servers, files and processes that are there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod conformance;
mod corpus;
mod embedded;
mod embedders;
mod files;
mod ingest;
mod kill;
mod killed;
#[cfg(feature = "postgres")]
mod postgres;
mod rerankers;
