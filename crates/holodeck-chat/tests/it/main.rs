//! Conversations over scripted backends.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod approvals;
mod concurrency;
mod conversation;
mod files;
mod import;
mod world;
