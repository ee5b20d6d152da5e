//! The `globs` of agents: which of them match a file of the working directory.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use holodeck_model::AgentDoc;

/// At most this number of files of the working directory is looked at.
const MAX_FILES: usize = 2_000;

/// Collects the patterns of agents, each once.
#[derive(Debug)]
pub(super) struct GlobsBuilder {
    numbers: BTreeMap<String, usize>,
    globs: GlobSetBuilder,
}

impl Default for GlobsBuilder {
    fn default() -> Self {
        Self {
            numbers: BTreeMap::new(),
            globs: GlobSetBuilder::new(),
        }
    }
}

impl GlobsBuilder {
    /// The numbers of the patterns of an agent; those that are no patterns are left out.
    pub(super) fn add(&mut self, doc: &AgentDoc) -> Vec<usize> {
        let mut own = Vec::new();
        for pattern in &doc.globs {
            let next = self.numbers.len();
            if let Some(number) = self.numbers.get(pattern) {
                own.push(*number);
            } else if let Some(glob) = compile(pattern) {
                self.globs.add(glob);
                self.numbers.insert(pattern.clone(), next);
                own.push(next);
            }
        }
        own
    }

    pub(super) fn build(self) -> Globs {
        Globs(self.globs.build().unwrap_or_default())
    }
}

/// The patterns of all agents.
#[derive(Clone, Debug)]
pub(super) struct Globs(GlobSet);

impl Globs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For each pattern, whether one of these files matches; the order of the files does not matter.
    pub(super) fn matched(&self, files: &[String]) -> Vec<bool> {
        let mut matched = vec![false; self.0.len()];
        if !self.is_empty() {
            let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
            for file in files.into_iter().take(MAX_FILES) {
                for number in self.0.matches(file) {
                    if let Some(glob) = matched.get_mut(number) {
                        *glob = true;
                    }
                }
            }
        }
        matched
    }
}

/// A pattern for paths relative to the working directory; one without `/` matches names in any folder.
fn compile(pattern: &str) -> Option<globset::Glob> {
    let pattern = pattern.trim().trim_start_matches("./");
    let pattern = match pattern.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    GlobBuilder::new(&pattern).literal_separator(true).build().ok()
}

/// The globs of an agent that are not patterns.
pub(super) fn bad_globs(doc: &AgentDoc) -> impl Iterator<Item = &String> {
    doc.globs.iter().filter(|pattern| compile(pattern).is_none())
}
