//! Findings as lines, as annotations of GitHub Actions, and as GitLab's report of code quality.

use std::{fmt, io::Write};

use holodeck_model::Severity;
use serde_json::json;

use super::{Finding, FindingPlace, FindingSubject, Fingerprints};
use crate::{ReportError, format};

/// `agent.yaml:6:3: error[HD0101]: unknown field`, a line for each finding.
pub(super) fn concise(
    subject: &FindingSubject<'_>,
    findings: impl Iterator<Item = Result<Finding, ReportError>>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    for finding in findings {
        let finding = finding?;
        let path = finding.place.as_ref().map_or(subject.file, |place| &place.path);
        let position = finding.place.as_ref().and_then(|place| place.position);
        let position = position.map_or_else(String::new, |(line, column)| format!("{line}:{column}:"));
        let text = finding.text();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        writeln!(
            out,
            "{}:{position} {}[{}]: {}",
            format::printable(path).replace(['\n', '\t'], " "),
            finding.severity,
            finding.rule.id,
            lines.join("; ")
        )?;
    }
    writeln!(out, "{}", subject.verdict)?;
    Ok(())
}

/// A command of GitHub Actions for each finding, and a last one with the verdict.
pub(super) fn github(
    subject: &FindingSubject<'_>,
    findings: impl Iterator<Item = Result<Finding, ReportError>>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    for finding in findings {
        let finding = finding?;
        let command = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        write!(out, "::{command} ")?;
        if let Some(FindingPlace { path, position }) = &finding.place {
            write!(out, "file={},", Property(&format::printable(path)))?;
            if let Some((line, column)) = position {
                write!(out, "line={line},col={column},")?;
            }
        }
        let (title, text) = (finding.title(), finding.text());
        writeln!(out, "title={}::{}", Property(&title), Message(&text))?;
    }
    let title = format::printable(subject.name);
    let title = format!("holodeck {}", format::one_line(&title, 100));
    let verdict = format::printable(&subject.verdict);
    writeln!(out, "::notice title={}::{}", Property(&title), Message(&verdict))?;
    Ok(())
}

/// The text of a command of GitHub Actions, which ends at the end of its line.
struct Message<'a>(&'a str);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, &['%', '\r', '\n'], f)
    }
}

/// A value of a property, which also ends at a colon or a comma.
struct Property<'a>(&'a str);

impl fmt::Display for Property<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, &['%', '\r', '\n', ':', ','], f)
    }
}

fn escape(text: &str, special: &[char], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in text.chars() {
        if special.contains(&c) {
            write!(f, "%{:02X}", u32::from(c))?;
        } else {
            fmt::Write::write_char(f, c)?;
        }
    }
    Ok(())
}

/// A list of issues. GitLab needs a file and a line of each: one without has those of the agent. It also needs a path from the
/// root of the repository: that of a file elsewhere is named in the text.
pub(super) fn gitlab(
    subject: &FindingSubject<'_>,
    findings: impl Iterator<Item = Result<Finding, ReportError>>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let mut fingerprints = Fingerprints::default();
    write!(out, "[")?;
    let mut separator = "\n";
    for finding in findings {
        let finding = finding?;
        let place = finding.place.as_ref();
        let path = place.map_or(subject.file, |place| &place.path);
        let line = place.and_then(|place| place.position).map_or(1, |(line, _)| line);
        let elsewhere = if path.starts_with('/') {
            format!(" ({}, outside of the repository)", format::printable(path))
        } else {
            String::new()
        };
        let issue = json!({
            "description": format!("{}: {}{elsewhere}", finding.title(), finding.text()),
            "check_name": format!("holodeck/{}", finding.rule.id),
            "fingerprint": fingerprints.of(subject, &finding),
            "severity": match finding.severity {
                Severity::Error => "major",
                Severity::Warning => "minor",
                Severity::Note => "info",
            },
            "location": {
                "path": path.strip_prefix("./").unwrap_or(path).trim_start_matches('/'),
                "lines": { "begin": line },
            },
        });
        write!(out, "{separator}{issue}")?;
        separator = ",\n";
    }
    writeln!(out, "{}]", if separator == "\n" { "" } else { "\n" })?;
    Ok(())
}
