//! Tests the backend against the scripted server: its requests, its handling of responses, and its errors.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod answers;
mod attempts;
mod bad_input;
mod conformance;
mod contradictions;
mod control;
mod dialects;
mod driver;
mod generated;
mod limits;
mod long_history;
mod marks;
mod number_odds;
mod pieces;
mod questions;
mod recorded;
mod refused_parts;
mod requests;
mod services;
mod setup;
mod structured;
mod tools;
mod unreadable;
mod waits;
