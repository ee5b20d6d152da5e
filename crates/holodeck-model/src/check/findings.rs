//! What the checks have found so far.

use std::collections::HashSet;

use crate::{
    Code, Diagnostic,
    yaml::{NodeId, Place, Tree},
};

/// Diagnostics, and which nodes they spoil, so that one mistake is told once.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) diagnostics: Vec<Diagnostic>,
    spoiled: HashSet<NodeId>,
    meant: HashSet<(NodeId, String)>,
    seen: HashSet<(Code, Place, String)>,
    errors: usize,
    others: usize,
    dropped: usize,
}

/// How many errors, and how many other diagnostics, are kept: hostile files have millions.
const MAX_KEPT: usize = 1000;

impl Findings {
    /// Adds a diagnostic unless the same was said of the same place, as happens through aliases.
    pub(crate) fn add(&mut self, tree: &Tree, place: Place, diagnostic: Diagnostic) {
        let kept = if diagnostic.is_error() {
            &mut self.errors
        } else {
            &mut self.others
        };
        if *kept >= MAX_KEPT {
            self.dropped += 1;
        } else if self
            .seen
            .insert((diagnostic.code, place, diagnostic.message.clone()))
        {
            *kept += 1;
            let at = tree.location(place);
            self.diagnostics.push(diagnostic.at(at));
        }
    }

    /// How many diagnostics were not kept.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    /// Further rules about this value would only repeat what was said.
    pub(crate) fn spoil(&mut self, node: NodeId) {
        self.spoiled.insert(node);
    }

    pub(crate) fn is_spoiled(&self, node: NodeId) -> bool {
        self.spoiled.contains(&node)
    }

    /// Remembers that an unknown key of a mapping was probably meant to be this field.
    pub(crate) fn mean(&mut self, map: NodeId, field: &str) {
        self.meant.insert((map, field.to_owned()));
    }

    pub(crate) fn is_meant(&self, map: NodeId, field: &str) -> bool {
        !self.meant.is_empty() && self.meant.contains(&(map, field.to_owned()))
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
