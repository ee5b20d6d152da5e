//! Tests that start real programs: their output and limits, and how they end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod endings;
mod running;
mod script;
