//! Runs recorded, checked and read back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod agents;
mod agui;
mod approvals;
mod backend_events;
mod checker;
mod contract;
mod ends;
mod grammar;
mod history;
mod json;
mod kill;
mod odd;
mod order;
#[cfg(feature = "postgres")]
mod postgres;
mod property;
mod session;
mod sqlite;
mod storing;
mod trajectory;
