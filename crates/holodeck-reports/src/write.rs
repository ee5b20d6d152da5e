//! Writes a report in a format.

use std::io::Write;

use crate::{FindingForm, Format, ReportError, RunView, findings, html, json, jsonl, junit, markdown};

/// Writes a report. Memory does not grow with the number of cases.
pub fn write_report(format: Format, view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    match format {
        Format::Json => json::report(view, out),
        Format::Markdown => markdown::report(view, out),
        Format::Junit => junit::report(view, out),
        Format::Html => html::report(view, out),
        Format::Jsonl => jsonl::report(view, out),
        Format::Github => findings::report(FindingForm::Github, view, out),
        Format::Gitlab => findings::report(FindingForm::Gitlab, view, out),
        Format::Sarif => findings::report(FindingForm::Sarif, view, out),
    }
}
