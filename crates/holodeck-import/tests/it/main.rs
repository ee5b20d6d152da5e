//! Imports of whole sources: files in, files and findings out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod assertions;
mod fixtures;
mod goldens;
mod providers;
mod setup;
