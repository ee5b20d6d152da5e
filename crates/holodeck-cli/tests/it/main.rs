//! The real binary, from outside: what it prints, what it leaves behind, what it exits with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    dead_code,
    reason = "tests"
)]

mod doctor;
mod project;
mod surface;
mod validate;
