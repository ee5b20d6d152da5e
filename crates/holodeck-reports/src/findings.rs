//! The findings of a run or of a file: each problem as one row, for the tools that show problems beside the code.
//!
//! There is one list, and a form for each tool. What is not known is a row as well, so that no tool shows it as a pass.

mod forms;
mod run;
mod sarif;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashSet, io::Write};

use holodeck_model::{Diagnostic, Severity, hex, shown_path};
use sha2::{Digest as _, Sha256};

use crate::{FindingPlace, ReportError, format};

pub(crate) use run::report;

/// Limits the text of a finding, as tools cut or refuse long ones.
const TEXT_CHARS: usize = 4_000;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of problem: a diagnostic code, or the state of a case.
    rule: Rule,
    severity: Severity,
    /// A few words.
    title: String,
    /// The text; may have several lines.
    message: String,
    /// Absent for a problem that is in no file.
    place: Option<FindingPlace>,
    /// With the rule, the same in another run for the same problem.
    key: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    id: Cow<'static, str>,
    about: Cow<'static, str>,
}

/// The subject of the findings.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct FindingSubject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its file: the place of a finding that has none, where a tool needs one.
    pub file: &'a str,
    /// The end of the list, for a person.
    pub verdict: String,
    /// Whether everything was checked that should be.
    pub is_complete: bool,
}

/// The forms of a list of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers choose one by name")]
pub enum FindingForm {
    /// One line each, as compilers have them.
    Concise,
    /// Commands of GitHub Actions that annotate files.
    Github,
    /// GitLab's report of code quality.
    Gitlab,
    /// SARIF 2.1.0.
    Sarif,
}

impl Finding {
    /// The finding of a diagnostic, whose file `name` names.
    pub fn of_diagnostic(diagnostic: &Diagnostic, name: impl Fn(&std::path::Path) -> String) -> Self {
        let hint = diagnostic.hint().map(|hint| format!("hint: {hint}"));
        let notes = diagnostic.notes.iter().cloned();
        let lines: Vec<String> = [diagnostic.message.clone()]
            .into_iter()
            .chain(notes)
            .chain(hint)
            .collect();
        let place = diagnostic.primary.as_ref();
        let key = format!(
            "{} {} {}",
            place.map_or_else(String::new, |place| shown_path(&place.path).display().to_string()),
            diagnostic.pointer.as_deref().unwrap_or_default(),
            diagnostic.message
        );
        Self {
            rule: Rule {
                id: diagnostic.code.id().to_owned().into(),
                about: diagnostic.code.name().to_owned().into(),
            },
            severity: diagnostic.severity,
            title: diagnostic.code.id().to_owned(),
            message: lines.join("\n"),
            place: place.map(|place| FindingPlace {
                path: name(&place.path),
                position: Some((place.line, place.column)),
            }),
            key,
        }
    }

    /// Title and text, printable and not too long.
    fn text(&self) -> String {
        format::clip(&format::printable(&self.message), TEXT_CHARS).into_owned()
    }

    fn title(&self) -> String {
        format::one_line(&format::printable(&self.title), 200)
    }
}

/// Identifies a finding among those of a report, and in the next one.
#[derive(Default)]
struct Fingerprints(HashSet<[u8; 32]>);

impl Fingerprints {
    fn of(&mut self, subject: &FindingSubject<'_>, finding: &Finding) -> String {
        let mut number = 0_u32;
        loop {
            let parts = [subject.name, subject.file, &finding.rule.id, &finding.key];
            let mut digest = Sha256::new();
            for part in parts {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
            digest.update(number.to_le_bytes());
            let digest: [u8; 32] = digest.finalize().into();
            if self.0.insert(digest) {
                return hex(&digest);
            }
            number += 1;
        }
    }
}

/// Writes findings in a form. Memory does not grow with their texts.
pub fn write_findings(
    form: FindingForm,
    subject: &FindingSubject<'_>,
    findings: impl Iterator<Item = Result<Finding, ReportError>>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    match form {
        FindingForm::Concise => forms::concise(subject, findings, out),
        FindingForm::Github => forms::github(subject, findings, out),
        FindingForm::Gitlab => forms::gitlab(subject, findings, out),
        FindingForm::Sarif => sarif::write(subject, findings, out),
    }
}
