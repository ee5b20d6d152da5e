//! Renders the checks of `holodeck doctor`.

use holodeck::{Check, CheckState, reports::format::printable};
use serde_json::{Value, json};

use super::{
    diagnostics::diagnostic_json,
    style::{BAD, DIM, DOUBTFUL, GOOD, hint, paint},
    text::{fit, width, wrap},
};

/// The result of each check, and hints for those that failed.
pub(crate) fn doctor(checks: &[Check], columns: usize) -> String {
    let subject = checks
        .iter()
        .map(|check| width(&check.subject))
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    let mut hints: Vec<String> = Vec::new();
    for check in checks {
        let (mark, style) = match check.state {
            CheckState::Ok => ("✓", GOOD),
            CheckState::Warning => ("!", DOUBTFUL),
            CheckState::Missing => ("✗", BAD),
            CheckState::NotNeeded => ("–", DIM),
            CheckState::NotChecked => ("?", DOUBTFUL),
        };
        let indent = subject + 4;
        for (number, line) in wrap(&printable(&check.found), columns.saturating_sub(indent))
            .iter()
            .enumerate()
        {
            if number == 0 {
                text.push_str(&format!(
                    "{} {}  {line}\n",
                    paint(style, mark),
                    fit(&check.subject, subject)
                ));
            } else {
                text.push_str(&format!("{}{line}\n", " ".repeat(indent)));
            }
        }
        let Some(diagnostic) = &check.diagnostic else {
            continue;
        };
        if let Some(place) = &diagnostic.primary {
            text.push_str(&format!("{}{place}\n", " ".repeat(indent)));
        }
        if let Some(help) = &diagnostic.help {
            let help = hint(&printable(help));
            // Two checks of a server may fail for the same reason.
            if !hints.contains(&help) {
                hints.push(help);
            }
        }
    }
    if !hints.is_empty() {
        text.push('\n');
        text.push_str(&hints.concat());
    }
    text
}

/// The checks as JSON.
pub(crate) fn doctor_json(checks: &[Check]) -> Value {
    let ok = !checks.iter().any(|check| check.state == CheckState::Missing);
    let checks: Vec<_> = checks
        .iter()
        .map(|check| {
            json!({
                "subject": check.subject,
                "state": check.state,
                "found": check.found,
                "diagnostic": check.diagnostic.as_ref().map(diagnostic_json),
            })
        })
        .collect();
    json!({"ok": ok, "checks": checks})
}
