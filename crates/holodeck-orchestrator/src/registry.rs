//! The specialist agents that can be selected, and the definition of each for a backend.

mod definition;
mod tools;

use std::sync::Arc;

use holodeck_model::{AgentDoc, Code, Diagnostic};

pub use definition::AgentDefinition;
pub(crate) use tools::written_names;

/// The specialist agents that can be selected, each name once, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct AgentRegistry {
    agents: Arc<[AgentDoc]>,
}

impl AgentRegistry {
    /// The registry of these agents, in any order. Of several agents with one name, the one with the lexicographically
    /// first path is used; each other one is an error in the diagnostics.
    pub fn new(mut docs: Vec<AgentDoc>) -> (Self, Vec<Diagnostic>) {
        fn order(doc: &AgentDoc) -> (&str, &[u8]) {
            (&doc.name, doc.path.as_os_str().as_encoded_bytes())
        }
        docs.sort_by(|one, other| order(one).cmp(&order(other)));
        let mut agents: Vec<AgentDoc> = Vec::with_capacity(docs.len());
        let mut diagnostics = Vec::new();
        for doc in docs {
            match agents.last().filter(|first| first.name == doc.name) {
                Some(first) => diagnostics.push(duplicate(first, &doc)),
                None => agents.push(doc),
            }
        }
        let registry = Self {
            agents: agents.into(),
        };
        (registry, diagnostics)
    }

    /// All agents, sorted by name.
    pub fn agents(&self) -> &[AgentDoc] {
        &self.agents
    }

    /// The agent of this name.
    pub fn get(&self, name: &str) -> Option<&AgentDoc> {
        let index = self
            .agents
            .binary_search_by(|agent| agent.name.as_str().cmp(name))
            .ok()?;
        self.agents.get(index)
    }
}

fn duplicate(first: &AgentDoc, doc: &AgentDoc) -> Diagnostic {
    let message = format!("another agent has the name `{}`; this one is not used", doc.name);
    let diagnostic = Diagnostic::error(Code::DuplicateName, message)
        .at(doc.places.name.clone())
        .about("name")
        .with_help("rename one of them; the first path in alphabetical order is used");
    match &first.places.name {
        Some(place) => diagnostic.with_label(place.clone(), "this one is used"),
        None => diagnostic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(name: &str, path: &str) -> AgentDoc {
        AgentDoc {
            name: name.to_owned(),
            path: path.into(),
            ..AgentDoc::default()
        }
    }

    #[test]
    fn of_duplicates_the_first_path_is_used_in_any_order() {
        for order in [["z/a.md", "b/a.md"], ["b/a.md", "z/a.md"]] {
            let docs = order.iter().map(|path| doc("a", path));
            let (registry, diagnostics) = AgentRegistry::new(docs.chain([doc("c", "a.md")]).collect());
            let found: Vec<_> = registry
                .agents()
                .iter()
                .map(|agent| agent.path.to_str().unwrap())
                .collect();
            assert_eq!(found, ["b/a.md", "a.md"]);
            assert_eq!(diagnostics.len(), 1);
            assert!(diagnostics[0].is_error());
        }
    }

    #[test]
    fn agents_are_found_by_exact_name() {
        let (registry, _) = AgentRegistry::new(["b", "a", "c"].map(|name| doc(name, name)).into());
        assert_eq!(registry.get("b").map(|agent| agent.name.as_str()), Some("b"));
        assert_eq!(registry.get("B"), None);
        assert_eq!(AgentRegistry::default().get("b"), None);
    }
}
