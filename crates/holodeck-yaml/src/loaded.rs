//! A loaded agent, and where each part of it was written.

use std::{ops::Deref, path::Path, sync::Arc};

use holodeck_model::{Layer, Location, ResolvedAgent};

use crate::yaml::{NodeId, Tree};

/// An agent that can be run, with the places of its parts. Running it needs only the agent.
#[derive(Clone, Debug)]
pub struct LoadedAgent {
    /// The agent.
    pub agent: Arc<ResolvedAgent>,
    /// The places of its parts in the files.
    pub places: Places,
}

impl Deref for LoadedAgent {
    type Target = ResolvedAgent;

    fn deref(&self) -> &ResolvedAgent {
        &self.agent
    }
}

impl LoadedAgent {
    /// Where a field was written; see [`Places::locate`].
    pub fn locate(&self, pointer: &str) -> Option<Location> {
        self.places.locate(pointer)
    }
}

/// A value of the YAML that contains variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableUse {
    /// The field, as in `model.endpoint`.
    pub pointer: String,
    /// Where it was written.
    pub location: Location,
    /// The names of the variables.
    pub names: Vec<String>,
}

/// Where each part of an agent was written. It uses much memory with many test cases: drop it when no place is needed
/// any more. The default contains no places.
#[derive(Clone, Debug, Default)]
pub struct Places(Option<SourceTree>);

#[derive(Clone, Debug)]
struct SourceTree {
    tree: Arc<Tree>,
    root: NodeId,
}

impl Places {
    pub(crate) fn new(tree: Tree, root: NodeId) -> Self {
        Self(Some(SourceTree {
            tree: Arc::new(tree),
            root,
        }))
    }

    /// Where a field was written, as in `model.endpoint` or `test_cases.3.evaluations.0`.
    pub fn locate(&self, pointer: &str) -> Option<Location> {
        self.find(pointer).map(|(location, _)| location)
    }

    /// The layer that set a field; `BuiltIn` if no file did.
    pub fn layer(&self, pointer: &str) -> Layer {
        self.find(pointer).map_or(Layer::BuiltIn, |(_, layer)| layer)
    }

    /// The values that contain variables, sorted by their fields.
    pub fn variables(&self) -> Vec<VariableUse> {
        let Some(SourceTree { tree, root }) = &self.0 else {
            return Vec::new();
        };
        let found = tree.variables(*root).into_iter();
        found
            .map(|(pointer, place, names)| VariableUse {
                pointer,
                location: tree.location(place),
                names: names.to_vec(),
            })
            .collect()
    }

    /// The files that were read to load the agent.
    pub fn source_files(&self) -> impl Iterator<Item = &Path> {
        let sources = self.0.iter().flat_map(|source_tree| source_tree.tree.sources());
        sources.map(|(_, source)| &*source.path)
    }

    fn find(&self, pointer: &str) -> Option<(Location, Layer)> {
        let SourceTree { tree, root } = self.0.as_ref()?;
        let place = tree.place(tree.find(*root, pointer)?);
        Some((tree.location(place), tree.layer(place)))
    }
}
