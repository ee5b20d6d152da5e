//! Tests of metrics, judges and statistics through the public API, against reference values.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod answer_checks;
mod asking;
mod calibration;
mod code;
mod conversation;
mod goldens;
mod grader;
mod json_checks;
mod judges;
mod masked;
mod nlp;
mod similar;
mod stats;
