//! A specialist agent, described in a Markdown file.

use std::{path::PathBuf, pin::Pin};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Location;

/// A specialist agent, described in a Markdown file with front matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentDoc {
    /// Its name: `name` of the front matter, else the file's stem.
    pub name: String,
    /// The purpose of the agent.
    pub description: String,
    /// The file.
    pub path: PathBuf,
    /// Its tools as written; `None`: all tools of the agent.
    pub tools: Option<Vec<String>>,
    /// Tools that it must not use, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// The mode of its permissions, without a person who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<AgentMode>,
    /// A model that overrides the agent's.
    pub model: Option<String>,
    /// Its subject.
    pub category: Option<String>,
    /// Whether it plans or wraps a tool.
    pub tier: Tier,
    /// Whether it is a core agent.
    pub core: bool,
    /// Words or phrases of tasks for it.
    pub triggers: Vec<String>,
    /// Commands for it.
    pub commands: Vec<String>,
    /// Files that it is for.
    pub globs: Vec<String>,
    /// Words that raise its score.
    pub boosts: Option<Boost>,
    /// How it thinks.
    pub mindset: Option<String>,
    /// The areas that the agent looks at.
    pub focus_areas: Vec<FocusArea>,
    /// The actions that the agent takes.
    pub key_actions: Vec<String>,
    /// The outputs of the agent.
    pub outputs: Vec<String>,
    /// The actions that the agent takes without asking.
    pub will: Vec<String>,
    /// The actions that the agent never takes.
    pub will_not: Vec<String>,
    /// The text below the front matter.
    pub body: String,
    /// The part of `body` that is outside the sections above.
    pub other: String,
    /// Where its parts are written.
    #[serde(skip)]
    pub places: AgentDocPlaces,
}

impl AgentDoc {
    /// The longest name, in characters.
    pub const MAX_NAME: usize = 64;
    /// The longest description, in characters.
    pub const MAX_DESCRIPTION: usize = 500;
    /// The highest number of tools.
    pub const MAX_TOOLS: usize = 20;

    /// Whether it has a section that a prompt consists of. Other files, such as those of Claude Code, are prompts as a
    /// whole.
    pub fn has_sections(&self) -> bool {
        let texts = [&self.key_actions, &self.outputs, &self.will, &self.will_not];
        self.mindset.is_some() || !self.focus_areas.is_empty() || texts.iter().any(|list| !list.is_empty())
    }
}

/// Where the parts of a specialist agent are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentDocPlaces {
    /// Its name, or its front matter if that has no name.
    pub name: Option<Location>,
    /// Each of its tools.
    pub tools: Vec<Location>,
    /// Each tool that it must not use.
    pub disallowed_tools: Vec<Location>,
    /// Its model.
    pub model: Option<Location>,
}

/// `permissionMode` of a file of Claude Code. A mode restricts; none gives the agent more than its own YAML does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AgentMode {
    /// That of the agent.
    Default,
    /// The same as `default`.
    Manual,
    /// Would approve edits: that of the agent decides.
    AcceptEdits,
    /// Would approve more: that of the agent decides.
    Auto,
    /// Would approve everything: that of the agent decides.
    BypassPermissions,
    /// Calls that need a person are rejected.
    DontAsk,
    /// It has no tool that may change something.
    Plan,
}

impl AgentMode {
    /// Whether the mode would give more than the agent has, and so has no effect.
    pub fn would_widen(self) -> bool {
        matches!(self, Self::AcceptEdits | Self::Auto | Self::BypassPermissions)
    }
}

/// An area that a specialist looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FocusArea {
    /// The name.
    pub name: String,
    /// The keywords of the area.
    pub keywords: Vec<String>,
}

/// Words that raise the score of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Boost {
    /// The words; one of them is enough.
    pub keywords: Vec<String>,
    /// The number that is added to the score.
    pub amount: f64,
}

/// The rank of a specialist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Plans complex tasks.
    Strategist,
    /// Applies rules of thumb.
    #[default]
    HeuristicWrapper,
}

/// A task and the specialist agent that should be selected for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingCase {
    /// The task.
    pub task: String,
    /// The agent; `None` if no agent should be selected.
    pub expected_agent: Option<String>,
    /// The name of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it is written.
    #[serde(skip)]
    pub location: Option<Location>,
}

/// The specialist agent that was selected for a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskRoute {
    /// The agent; `None`: the selection declined.
    pub agent: Option<String>,
    /// Whether it is only the default, because no agent fits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// The code and the reason of the gate that refuses the agent: it is selected, but would not execute the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why it says nothing about which agent fits: no selection took place, or its agent failed. Such a route meets no
    /// expectation, also not that no agent fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unselected: Option<String>,
    /// How confident the selection is, 0–1.
    pub confidence: f64,
    /// Why.
    pub reason: String,
}

impl TaskRoute {
    /// The agent that executes the task.
    pub fn routed(&self) -> Option<&str> {
        self.agent.as_deref().filter(|_| self.refused.is_none())
    }

    /// Whether the expected agent executes the task. If none is expected, a default agent does not count.
    pub fn fits(&self, expected: Option<&str>) -> bool {
        if self.unselected.is_some() {
            return false;
        }
        match expected {
            None => self.routed().is_none() || self.by_default,
            Some(_) => self.routed() == expected,
        }
    }
}

/// A route that is being found.
pub type RouteFuture<'a> = Pin<Box<dyn Future<Output = TaskRoute> + Send + 'a>>;

/// Selects a specialist agent for the task of a test case.
pub trait TaskRouter: Send + Sync {
    /// The route of a task, of a command if it names one. Nothing is asked.
    fn route<'a>(&'a self, task: &'a str, command: Option<&'a str>) -> RouteFuture<'a>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_no_agent_that_fits() {
        let route = |agent: Option<&str>, by_default| TaskRoute {
            agent: agent.map(str::to_owned),
            by_default,
            ..TaskRoute::default()
        };
        assert!(route(Some("a"), false).fits(Some("a")));
        assert!(!route(Some("a"), false).fits(Some("b")));
        assert!(!route(Some("a"), false).fits(None));
        assert!(route(Some("a"), true).fits(None) && route(Some("a"), true).fits(Some("a")));
        assert!(route(None, false).fits(None) && !route(None, false).fits(Some("a")));
    }

    #[test]
    fn an_agent_that_a_gate_refuses_is_not_the_one_that_was_expected() {
        for by_default in [false, true] {
            let refused = TaskRoute {
                agent: Some("a".to_owned()),
                by_default,
                refused: Some("low_confidence".to_owned()),
                ..TaskRoute::default()
            };
            assert!(!refused.fits(Some("a")) && refused.fits(None));
        }
    }
}
