//! Collects diagnostics so that each mistake is reported once, and in limited number.

use std::collections::HashSet;

use holodeck_model::{Code, Diagnostic};

use crate::yaml::{NodeId, Place, Tree};

/// Diagnostics and the nodes that they make invalid, so that each mistake is reported once.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) diagnostics: Vec<Diagnostic>,
    invalid: HashSet<NodeId>,
    suggestions: HashSet<(NodeId, String)>,
    keys: HashSet<(Code, Place, String)>,
    errors: usize,
    others: usize,
    dropped: usize,
}

/// Maximum number of errors, and of other diagnostics: hostile files can cause millions.
const MAX_DIAGNOSTICS: usize = 1000;

impl Findings {
    /// Adds a diagnostic unless the same one was reported for the same place, as can happen with aliases.
    pub(crate) fn add(&mut self, tree: &Tree, place: Place, diagnostic: Diagnostic) {
        let count = if diagnostic.is_error() {
            &mut self.errors
        } else {
            &mut self.others
        };
        if *count >= MAX_DIAGNOSTICS {
            self.dropped += 1;
        } else if self
            .keys
            .insert((diagnostic.code, place, diagnostic.message.clone()))
        {
            *count += 1;
            let at = tree.location(place);
            self.diagnostics.push(diagnostic.at(at));
        }
    }

    /// Number of diagnostics beyond the maximum.
    pub(crate) fn dropped_count(&self) -> usize {
        self.dropped
    }

    /// Marks a value as invalid: further rules about it would only repeat the problem.
    pub(crate) fn mark_invalid(&mut self, node: NodeId) {
        self.invalid.insert(node);
    }

    pub(crate) fn is_invalid(&self, node: NodeId) -> bool {
        self.invalid.contains(&node)
    }

    /// Records that an unknown key of a mapping was probably meant to be this field.
    pub(crate) fn add_suggestion(&mut self, map: NodeId, field: &str) {
        self.suggestions.insert((map, field.to_owned()));
    }

    pub(crate) fn is_suggested(&self, map: NodeId, field: &str) -> bool {
        !self.suggestions.is_empty() && self.suggestions.contains(&(map, field.to_owned()))
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
