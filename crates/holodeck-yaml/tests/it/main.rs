//! Tests of the public interface of the YAML language.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::format_push_string,
    clippy::format_collect,
    clippy::large_stack_arrays,
    reason = "tests"
)]

mod agent_docs;
mod approvals;
mod case_language;
mod data_sets;
mod fixtures;
mod folders;
mod front_matter_forms;
mod front_matter_places;
mod fuzz;
mod idle_gates;
mod limits;
mod line_ends;
mod loaded;
mod matrix;
mod origins;
mod plain_texts;
mod schema;
mod support;
mod trials;
mod workbooks;
