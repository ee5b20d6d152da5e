//! Tests with the real `python3` and `sh`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod agent;
mod host;
mod mocks;
mod programs;
mod python;
mod schemas;
mod sources;
