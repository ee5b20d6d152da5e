//! The server over real connections, with scripted agents.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod access;
mod ag_ui;
mod approvals;
mod browsers;
mod completions;
mod ending;
mod files;
mod full_disk;
mod keys;
mod messages;
mod openai_requests;
mod responses;
mod resuming;
mod retries;
mod sockets;
mod stalled;
mod surface;
mod world;
