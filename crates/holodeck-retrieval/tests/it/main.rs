//! Embedders and ingestion against servers, files and processes that are there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod corpus;
mod embedders;
mod files;
mod ingest;
