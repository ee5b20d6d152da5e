#![doc = include_str!("../README.md")]

mod code;
mod deepeval;
mod findings;
mod promptfoo;
mod reader;
mod table;
mod template;
mod writer;

pub use code::{CodeRequest, CodeRunner, Language};
pub use deepeval::import_deepeval;
pub use findings::{Finding, FindingKind};
pub use promptfoo::import_promptfoo;
pub use reader::{ImportError, SourceFiles};
pub use table::import_table;

use std::path::PathBuf;

/// What a source became.
#[derive(Debug, Default)]
pub struct Import {
    /// The files to write, relative to one folder.
    pub files: Vec<ImportedFile>,
    /// What was not taken over, or differs, in the order of the source.
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
