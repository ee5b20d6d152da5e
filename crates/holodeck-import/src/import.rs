//! The result of an import: files to write, and findings.

use std::path::PathBuf;

use crate::findings::{Finding, FindingKind};

/// The result of an import.
#[derive(Debug, Default)]
pub struct Import {
    /// The files to write, relative to one folder.
    pub files: Vec<ImportedFile>,
    /// The parts that were not taken over, or differ.
    pub findings: Vec<Finding>,
    /// The agent files among `files`.
    pub agents: Vec<PathBuf>,
    /// How many test cases there are, over all agents.
    pub cases: usize,
}

impl Import {
    /// Whether something that decides a verdict was left out.
    pub fn is_partial(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.kind == FindingKind::LeftOut)
    }
}

/// A file to write.
#[derive(Debug)]
pub struct ImportedFile {
    /// Its path, relative to the folder of the import.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}
