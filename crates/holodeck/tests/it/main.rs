//! The facade against a scripted endpoint and real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod answers;
mod documentation;
mod imports;
mod refusals;
mod support;
mod telemetry;
mod tools;
