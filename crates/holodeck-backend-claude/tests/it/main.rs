//! The backend on the real Claude Code CLI, talking to a scripted Messages API on loopback, and on one that
//! misbehaves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod conformance;
mod fake;
mod faults;
mod isolation;
mod real_faults;
mod sessions;
mod setup;
