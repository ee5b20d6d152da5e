//! Everything that is shown. Each function makes text with styles; whether they reach the reader is decided where it
//! is written.

#![allow(
    clippy::format_push_string,
    reason = "what is shown is short; lines that read like what they show are worth an allocation"
)]

mod case;
mod diagnostics;
mod doctor;
mod dry_run;
mod index;
mod index_progress;
mod problem;
mod progress;
mod reference;
mod settings;
mod style;
mod summary;
mod text;

pub(crate) use diagnostics::{Shown, diagnostics, diagnostics_json};
pub(crate) use doctor::{doctor, doctor_json};
pub(crate) use dry_run::{dry_run, dry_run_json};
pub(crate) use index::{built, found, index_status, migrated};
pub(crate) use index_progress::IndexProgress;
pub(crate) use problem::problem;
pub(crate) use progress::{Kept, Progress, Style as ProgressStyle};
pub(crate) use reference::{command_reference, diagnostic_reference};
pub(crate) use settings::settings;
pub(crate) use style::hint;
pub(crate) use summary::{Failures, Summary, hints, summary};
