//! The specialist agents that can be selected.

use std::sync::Arc;

use holodeck_model::AgentDoc;

/// The specialist agents that can be selected, each name once, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct AgentRegistry {
    agents: Arc<[AgentDoc]>,
}

impl AgentRegistry {
    /// All agents, sorted by name.
    pub fn agents(&self) -> &[AgentDoc] {
        &self.agents
    }

    /// The agent of this name.
    pub fn get(&self, name: &str) -> Option<&AgentDoc> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}
