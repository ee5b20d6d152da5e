//! The client against third-party servers and misbehaving ones.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod broken;
mod changes;
mod conformance;
mod everything;
mod faults;
mod field;
mod files;
mod limits;
mod logins;
mod remote;
mod schemas;
mod setup;
mod websocket;
