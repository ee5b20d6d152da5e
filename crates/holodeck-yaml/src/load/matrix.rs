//! Puts the values of a combination of the `matrix` at the paths of their axes.

use holodeck_model::{Code, Combination, Diagnostic};
use serde_json::Value;

use super::Loader;
use crate::yaml::{Entry, NodeId, from_tree};

/// Choices of which a value replaces the whole: with `instructions.file`, an `instructions.inline` of the file does not
/// apply.
const CHOICES: [&str; 1] = ["instructions"];

impl Loader<'_> {
    /// The agent with the values of the combination, which keep their places in the matrix.
    pub(super) fn apply_combination(&mut self, root: NodeId) -> NodeId {
        let Some(combination) = self.combination else {
            return root;
        };
        let Some(values) = self.find_values(root, combination) else {
            self.report_missing_combination(root, combination);
            return root;
        };
        values.into_iter().fold(root, |root, (axis, value)| {
            let path = self.tree.key(&axis).to_owned();
            let steps: Vec<&str> = path.split('.').collect();
            self.set(root, &steps, axis, value)
        })
    }

    /// The axes with the nodes of their values; `None` if the matrix does not have the combination.
    fn find_values(&self, root: NodeId, combination: &Combination) -> Option<Vec<(Entry, NodeId)>> {
        let matrix = self.tree.get(root, "matrix")?.value;
        let axes = self.tree.entries(matrix)?;
        if axes.len() != combination.len() {
            return None;
        }
        let find = |axis: &Entry| {
            let wanted = combination.get(self.tree.key(axis))?;
            let mut values = self.tree.items(axis.value)?.iter();
            let is_wanted =
                |node: &&NodeId| from_tree::<Value>(&self.tree, **node).is_ok_and(|value| value == *wanted);
            Some((*axis, *values.find(is_wanted)?))
        };
        axes.iter().map(find).collect()
    }

    fn report_missing_combination(&mut self, root: NodeId, combination: &Combination) {
        let matrix = self.tree.get(root, "matrix");
        let place = matrix.map_or_else(|| self.tree.place(root), |entry| entry.key_place);
        let message = format!("`matrix` does not have the combination {combination}");
        let diagnostic = Diagnostic::error(Code::UnknownReference, message)
            .about("matrix")
            .with_help("it has changed since the run: restore it, or start a new run with `holodeck test`");
        self.findings.add(&self.tree, place, diagnostic);
    }

    /// `node` with the value at these steps below it. Mappings that are missing on the way are added.
    fn set(&mut self, node: NodeId, steps: &[&str], axis: Entry, value: NodeId) -> NodeId {
        let Some((step, rest)) = steps.split_first() else {
            return value;
        };
        if let Some(items) = self.tree.items(node).map(<[NodeId]>::to_vec) {
            let mut items = items;
            let item = step.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            let Some(item) = item else { return node };
            *item = self.set(*item, rest, axis, value);
            return self.tree.seq_node(self.tree.place(node), &items);
        }
        if self.tree.entries(node).is_none() && !self.tree.is_null(node) {
            // The check of the matrix reports it.
            return node;
        }
        let present = self.tree.get(node, step).copied();
        let inner = match present {
            Some(entry) if !CHOICES.contains(step) || rest.is_empty() => entry.value,
            _ => self.tree.map_node(self.tree.place(value), &[]),
        };
        let inner = self.set(inner, rest, axis, value);
        let entry = match present {
            Some(entry) => entry.with_value(inner),
            None => self.tree.entry(step, axis.key_place, inner),
        };
        if self.tree.is_null(node) {
            return self.tree.map_node(self.tree.place(value), &[entry]);
        }
        self.with_entry(node, entry)
    }
}
