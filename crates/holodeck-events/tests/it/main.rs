//! Runs recorded, checked and read back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod agents;
mod approvals;
mod checker;
mod ends;
mod grammar;
mod json;
mod odd;
mod order;
mod property;
mod recorded;
mod said;
mod storing;
