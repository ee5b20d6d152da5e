//! Built-in tools that only some sub-agents have.
//!
//! The CLI has one set of built-in tools for all agents of a conversation. Where a sub-agent has more than the agent, the
//! agent itself is defined as an agent without them, and only sub-agents that name such a tool may call it. Where there are
//! none, it must change nothing.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use crate::ClaudeOptions;

/// The tools that only sub-agents have, and who has which.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubagentTools {
    tools: Vec<String>,
    /// The tools of each sub-agent, by the name of the sub-agent.
    owners: HashMap<String, Vec<String>>,
    /// The commands of sub-agents that may run only some.
    commands: BTreeMap<String, Vec<String>>,
}

impl SubagentTools {
    pub(crate) fn of(options: &ClaudeOptions) -> Self {
        let agents = options.agents.iter();
        let owners = agents.map(|(name, agent)| {
            let tools = agent.get("tools").and_then(Value::as_array).into_iter().flatten();
            let tools = tools.filter_map(Value::as_str).map(str::to_owned).collect();
            (name.clone(), tools)
        });
        Self {
            tools: options.subagent_tools.clone(),
            owners: owners.collect(),
            commands: options.subagent_commands.clone(),
        }
    }

    /// The patterns of the commands that an agent may run; `None` if it has no own ones.
    pub(crate) fn commands(&self, agent: Option<&str>) -> Option<&[String]> {
        self.commands.get(agent?).map(Vec::as_slice)
    }

    /// Whether an agent may call a tool; the agent itself has the name of [`main_agent`], and an unknown one has none of
    /// these tools.
    pub(crate) fn may_call(&self, agent: Option<&str>, tool: &str) -> bool {
        let has = |tools: &Vec<String>| tools.iter().any(|own| own == tool);
        !has(&self.tools) || agent.and_then(|agent| self.owners.get(agent)).is_some_and(has)
    }
}

/// The name of the agent itself among the definitions, if it needs one.
pub(crate) fn main_agent(options: &ClaudeOptions) -> Option<String> {
    if options.subagent_tools.is_empty() {
        return None;
    }
    let mut name = "holodeck-agent".to_owned();
    while options.agents.contains_key(&name) {
        name.push('-');
    }
    Some(name)
}

/// The definitions of all agents. Those without a list of tools have the tools of the agent itself.
pub(crate) fn definitions(options: &ClaudeOptions) -> Map<String, Value> {
    let mut agents = options.agents.clone();
    let Some(main) = main_agent(options) else {
        return agents;
    };
    let only = json!(options.subagent_tools);
    for agent in agents.values_mut().filter_map(Value::as_object_mut) {
        if !agent.contains_key("tools") {
            agent.insert("disallowedTools".to_owned(), only.clone());
        }
    }
    let own =
        json!({"description": "The agent itself.", "prompt": options.system_prompt, "disallowedTools": only});
    agents.insert(main, own);
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sub_agents_that_name_a_tool_may_call_it() {
        let mut options = ClaudeOptions::new("claude").subagent_tools(["Read", "Bash"]);
        for (name, definition) in [
            ("reader", json!({"tools": ["Read"]})),
            ("runner", json!({"tools": ["Bash", "Read"]})),
            ("plain", json!({})),
            ("holodeck-agent", json!({"tools": []})),
        ] {
            options = options.agent(name, definition);
        }
        let tools = SubagentTools::of(&options);
        let main = main_agent(&options).unwrap();
        let agents = [
            "reader",
            "runner",
            "plain",
            "general-purpose",
            "holodeck-agent",
            &main,
        ];
        for agent in agents.map(Some).into_iter().chain([None]) {
            for (tool, owners) in [("Read", "reader runner"), ("Bash", "runner")] {
                let may = agent.is_some_and(|agent| owners.split(' ').any(|owner| owner == agent));
                assert_eq!(tools.may_call(agent, tool), may, "{agent:?} {tool}");
            }
            assert!(tools.may_call(agent, "Grep"));
        }
        let all = definitions(&options);
        assert_eq!(all[&main]["disallowedTools"], json!(["Read", "Bash"]));
        assert_eq!(all["plain"]["disallowedTools"], json!(["Read", "Bash"]));
        assert_eq!(all["reader"], json!({"tools": ["Read"]}));
        let without = ClaudeOptions::new("claude").agent("plain", json!({}));
        assert_eq!(
            (main_agent(&without), definitions(&without)),
            (None, without.agents.clone())
        );
    }
}
