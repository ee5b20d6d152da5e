//! Tests of complete runs with a scripted backend and real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod control;
mod deciders;
mod files;
mod resume;
mod retrieval;
mod stopping;
mod support;
mod trajectory;
mod trials;
mod verdicts;
