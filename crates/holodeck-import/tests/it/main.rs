//! Imports of whole sources: files in, files and findings out.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod assertions;
mod fixtures;
mod goldens;
mod setup;
