//! Merges two layers of configuration key by key.

use super::tree::{Entry, NodeId, Tree};

/// Merges two nodes key by key: `strong` takes precedence, but keeps the keys of `weak` that it does not have.
///
/// A key without a value counts as absent. Lists are not merged.
pub(crate) fn deep_merge(tree: &mut Tree, strong: NodeId, weak: NodeId) -> NodeId {
    let (Some(above), Some(below)) = (
        tree.entries(strong).map(<[Entry]>::to_vec),
        tree.entries(weak).map(<[Entry]>::to_vec),
    ) else {
        return if tree.is_null(strong) { weak } else { strong };
    };
    let mut merged = Vec::with_capacity(above.len() + below.len());
    for entry in &above {
        let beneath = below.iter().find(|other| other.key_id() == entry.key_id());
        merged.push(match beneath {
            None => *entry,
            Some(other) if tree.is_null(entry.value) => *other,
            Some(other) => entry.with_value(deep_merge(tree, entry.value, other.value)),
        });
    }
    merged.extend(
        below
            .iter()
            .filter(|other| !above.iter().any(|entry| entry.key_id() == other.key_id()))
            .copied(),
    );
    let place = tree.place(strong);
    tree.map_node(place, &merged)
}
