//! Tests of targets against scripted services and programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod conformance;
mod hostile;
mod http;
mod programs;
mod setup;
