//! The client against servers that are not ours, and against servers that misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod changes;
mod conformance;
mod everything;
mod faults;
mod files;
mod limits;
mod remote;
mod setup;
