//! Renders everything that is shown as text with styles. Must not write: `terminal` writes it and decides whether the
//! styles are kept.

#![allow(
    clippy::format_push_string,
    reason = "the texts are short; readable code is worth an allocation"
)]

mod agents;
mod calibration;
mod case;
mod comparison;
mod conversation;
mod diagnostics;
mod doctor;
mod dry_run;
mod fields;
mod index;
mod index_progress;
mod matrix;
mod problem;
mod progress;
mod quality;
mod reference;
mod routing;
mod runs;
mod settings;
mod style;
mod summary;
mod text;

pub(crate) use agents::{agent, agent_list, ranking, route, routing_report, routing_reports};
pub(crate) use calibration::calibration;
pub(crate) use comparison::comparison;
pub(crate) use conversation::{call_arguments, conversation, whole_arguments};
pub(crate) use diagnostics::{DiagnosticFilter, count_diagnostics, diagnostics, diagnostics_json};
pub(crate) use doctor::{doctor, doctor_json};
pub(crate) use dry_run::{dry_run, dry_run_json};
#[cfg(debug_assertions)]
pub(crate) use fields::{event_page, field_page, metric_page, run_file_page};
pub(crate) use fields::{explain_field, explain_metric};
pub(crate) use holodeck::model::shown_path;
pub(crate) use index::{index_builds, index_status, migration, search_results};
pub(crate) use index_progress::IndexProgress;
pub(crate) use matrix::{MatrixRow, combination, matrix, matrix_plan, matrix_plan_json};
pub(crate) use problem::problem;
pub(crate) use progress::{Highlights, Progress, Style as ProgressStyle};
pub(crate) use quality::{loop_replay, loop_report};
pub(crate) use reference::{command_reference, diagnostic_reference};
pub(crate) use routing::{attempt, execution, fallback, observed, routing_plan};
pub(crate) use runs::{ListedRow, run_list, run_state, stored_case, stored_run};
pub(crate) use settings::settings;
pub(crate) use style::{dim, failed_text, hint, strong};
pub(crate) use summary::{FailureList, Summary, hints, summary};
pub(crate) use text::cut;
