//! The backend against the scripted server: what it sends, what it makes of what comes, and how it fails.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod answers;
mod bad_input;
mod conformance;
mod control;
mod driver;
mod limits;
mod recorded;
mod requests;
mod setup;
mod structured;
mod tools;
