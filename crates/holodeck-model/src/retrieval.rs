//! Which calls of an agent retrieve something.

use std::collections::HashSet;

use crate::{Agent, ToolConfig};

/// What stands before the names of an agent's own tools where they come from an MCP server in our process.
const IN_PROCESS: &str = "mcp__holodeck_tools__";

impl ToolConfig {
    /// What the model calls a tool of the YAML, whatever the backend: tools that search are `<name>_search`. An MCP
    /// server has tools of its own and no such name.
    pub fn model_name(&self) -> Option<String> {
        match self {
            Self::Vectorstore(_) | Self::HierarchicalDocument(_) => Some(format!("{}_search", self.name())),
            Self::Function(_) | Self::Prompt(_) => Some(self.name().to_owned()),
            Self::Mcp(_) => None,
        }
    }
}

/// Tells from the name of a called tool whether its answer is what retrieval found: `<name>_search` of a
/// `vectorstore` or `hierarchical_document`, and every tool of an MCP server with `is_retrieval`.
#[derive(Clone, Debug, Default)]
pub struct RetrievalTools {
    names: HashSet<String>,
    /// Every server as the model sees its name, the longest first, and whether it retrieves.
    servers: Vec<(String, bool)>,
}

impl RetrievalTools {
    /// Those of an agent.
    pub fn of(agent: &Agent) -> Self {
        let indexed = agent.tools.iter().filter(|tool| tool.is_indexed());
        let names = indexed.filter_map(ToolConfig::model_name).collect();
        let mut servers: Vec<_> = agent
            .tools
            .iter()
            .filter_map(|tool| match tool {
                ToolConfig::Mcp(server) => Some((format!("mcp__{}__", server.name), server.is_retrieval)),
                _ => None,
            })
            .collect();
        // `a` must not take the tools of `a__b`.
        servers.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self { names, servers }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.servers.iter().all(|(_, retrieves)| !retrieves)
    }

    /// Whether a call of this name retrieves, on any backend.
    pub fn include(&self, called: &str) -> bool {
        let own = called.strip_prefix(IN_PROCESS).unwrap_or(called);
        if self.names.contains(own) {
            return true;
        }
        let mut servers = self.servers.iter();
        servers
            .find(|(prefix, _)| called.starts_with(prefix.as_str()))
            .is_some_and(|(_, retrieves)| *retrieves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Env, MemoryFiles, load_agent};

    #[test]
    fn names_tell_what_retrieves_on_every_backend() {
        let text = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\ntools:\n\
            - {type: vectorstore, name: kb, description: d, source: docs}\n\
            - {type: hierarchical_document, name: law, description: d, source: docs}\n\
            - {type: function, name: web_search, description: d, command: cat}\n\
            - {type: mcp, name: wiki, description: d, command: npx, is_retrieval: true}\n\
            - {type: mcp, name: wiki__admin, description: d, command: npx}\n\
            - {type: mcp, name: files, description: d, command: npx}\n";
        let files = MemoryFiles::new().with("agent.yaml", text);
        let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
        let tools = RetrievalTools::of(&load.agent.unwrap().config);
        assert!(!tools.is_empty());
        for (called, retrieves) in [
            ("kb_search", true),
            ("mcp__holodeck_tools__kb_search", true),
            ("law_search", true),
            ("mcp__wiki__lookup", true),
            ("kb", false),
            ("web_search", false),
            ("mcp__holodeck_tools__web_search", false),
            ("mcp__wiki__admin__lookup", false),
            ("mcp__files__kb_search", false),
            ("mcp__wikis__lookup", false),
            ("", false),
        ] {
            assert_eq!(tools.include(called), retrieves, "{called}");
        }
        assert!(RetrievalTools::default().is_empty());
    }
}
