//! Spans and metrics as a collector sees them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod agent;
mod checks;
mod collector;
mod console;
mod evaluations;
mod faults;
mod grpc;
mod retries;
mod spans;
mod variables;
