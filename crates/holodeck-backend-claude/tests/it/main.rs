//! Tests the backend with the real Claude Code CLI against a scripted Messages API on loopback, and with a fake CLI
//! that misbehaves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod agents;
mod compaction;
mod conformance;
mod ends;
mod fake;
mod faults;
mod isolation;
mod limits;
mod messages;
mod older;
mod permissions;
mod private;
mod real_faults;
mod releases;
mod sessions;
mod setup;
mod structured;
mod thinking;
mod tokens;
mod tools;
