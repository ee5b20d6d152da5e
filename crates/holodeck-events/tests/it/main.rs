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
mod chunks;
mod contract;
mod ends;
mod grammar;
mod history;
mod json;
mod kill;
mod leftovers;
#[cfg(unix)]
mod liveness;
mod odd;
mod order;
#[cfg(feature = "postgres")]
mod postgres;
// The testkit builds on this crate, which therefore does not depend on it.
#[cfg(feature = "postgres")]
#[path = "../../../holodeck-testkit/src/postgres.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    reason = "shared with the testkit, where all of it is used"
)]
mod postgres_server;
mod property;
mod session;
mod sqlite;
mod storing;
mod trajectory;
mod turns;
