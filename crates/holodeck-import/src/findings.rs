//! The findings of an import: parts that it did not take over, or took over in another form.

use std::{path::PathBuf, sync::Arc};

use holodeck_yaml::ForeignNode;
use serde::Serialize;

/// Something of the source that is not in the result as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its meaning for the verdicts.
    pub kind: FindingKind,
    /// The file of the source.
    pub file: PathBuf,
    /// The line in it.
    pub line: usize,
    /// The part, in lower case and without a full stop.
    pub what: String,
    /// The nearest thing that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

/// The meaning of a finding for the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Not taken over, and it decides a verdict.
    LeftOut,
    /// Taken over; it may decide otherwise in rare cases, which are named.
    Differs,
    /// Not taken over; it decides no verdict.
    Ignored,
}

/// Collects findings, each once.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
}

impl Findings {
    pub(crate) fn left_out(&mut self, at: &ForeignNode, what: impl Into<String>, nearest: &str) {
        self.add(FindingKind::LeftOut, at, what.into(), nearest);
    }

    pub(crate) fn differs(&mut self, at: &ForeignNode, what: impl Into<String>) {
        self.add(FindingKind::Differs, at, what.into(), "");
    }

    pub(crate) fn ignored(&mut self, at: &ForeignNode, what: impl Into<String>, nearest: &str) {
        self.add(FindingKind::Ignored, at, what.into(), nearest);
    }

    fn add(&mut self, kind: FindingKind, at: &ForeignNode, what: String, nearest: &str) {
        let finding = Finding {
            kind,
            file: Arc::clone(&at.path).to_path_buf(),
            line: at.line,
            what,
            nearest: (!nearest.is_empty()).then(|| nearest.to_owned()),
        };
        // A test that becomes several cases, for several models, is one line of the source.
        if !self.found.contains(&finding) {
            self.found.push(finding);
        }
    }

    /// How many there are that decide a verdict.
    pub(crate) fn left_out_count(&self) -> usize {
        let left_out = |finding: &&Finding| finding.kind == FindingKind::LeftOut;
        self.found.iter().filter(left_out).count()
    }

    /// All of them: first what decides, then by file and line.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        self.found
            .sort_by(|a, b| (a.kind, &a.file, a.line).cmp(&(b.kind, &b.file, b.line)));
        self.found
    }
}
