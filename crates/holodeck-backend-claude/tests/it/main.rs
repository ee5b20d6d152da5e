//! The backend on the real Claude Code CLI, talking to a scripted Messages API on loopback, and on one that
//! misbehaves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod agents;
mod conformance;
mod ends;
mod fake;
mod faults;
mod from_yaml;
mod http;
mod isolation;
mod limits;
mod mcp;
mod messages;
mod older;
mod permissions;
mod private;
mod real_faults;
mod sessions;
mod setup;
mod signing_in;
mod structured;
mod telemetry;
mod thinking;
mod tools;
mod yaml;
