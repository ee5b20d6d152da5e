//! Tests of the testkit: a server, a model or a suite that accepts anything proves nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod anthropic;
mod conformance;
mod server;
