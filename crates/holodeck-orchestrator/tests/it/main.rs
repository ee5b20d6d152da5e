//! Commands through the facade, with scripted backends and no network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    missing_docs,
    reason = "tests"
)]

mod bench;
mod closures;
mod facade;
mod gates;
mod hanging;
mod observers;
mod programs;
