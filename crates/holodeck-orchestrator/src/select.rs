//! Selects the specialist for a task: a pure function of its inputs.

mod calibration;
mod categories;
mod components;
mod globs;
mod keyword;
mod phrases;
mod prepared;
mod review;
pub(crate) mod route;
mod search;
mod selector;
mod stem;
mod terms;
mod topics;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use holodeck_model::{AgentsConfig, Tier};
use serde::Serialize;

pub use route::{Route, RouteRules};
pub use selector::AgentSelector;

// No agent can declare it.
pub(crate) use holodeck_model::PLAIN_COMMAND;

/// The task for which an agent is selected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelectionTask {
    /// The task.
    pub text: String,
    /// The name of the command.
    pub command: String,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// The files of the working directory, relative and sorted, at most 2,000.
    pub files: Vec<String>,
    /// The category that the caller expects.
    pub category: Option<String>,
}

/// Selects an agent. The same task always has the same selection.
pub trait Selector: Send + Sync {
    /// The selection for `task`.
    fn select(&self, task: &SelectionTask) -> Selection;
}

/// The agent that was selected, or none, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Selection {
    /// Whether the agent should execute the task.
    pub use_sdk: bool,
    /// The agent.
    pub agent: Option<String>,
    /// Its rank.
    pub tier: Option<Tier>,
    /// How confident the selection is, 0–1.
    pub confidence: f64,
    /// The reason for the selection.
    pub selected_by: SelectedBy,
    /// Why.
    pub reason: String,
    /// How the score was reached.
    pub breakdown: ScoreBreakdown,
    /// The next best agents, at most five.
    pub ranked_alternatives: Vec<RankedAgent>,
}

/// An agent that was not selected, with its score.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankedAgent {
    /// The agent.
    pub agent: String,
    /// Its score: 0–1 with `keyword-v1`, the sum of the evidence with `search-v2`.
    pub score: f64,
}

/// An agent with its score and how the score was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScoredAgent {
    /// The agent.
    pub agent: String,
    /// Its rank.
    pub tier: Tier,
    /// Its score: 0–1 with `keyword-v1`, the sum of the evidence with `search-v2`.
    pub score: f64,
    /// How the score was reached.
    pub breakdown: ScoreBreakdown,
}

/// The reason for the selection of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectedBy {
    /// Nothing: the selection declined.
    #[default]
    None,
    /// Its score.
    Score,
    /// The command, which it declares.
    Command,
    /// No agent reached the floor; it is the default.
    Default,
}

/// The parts of a score; their sum is the score, with `keyword-v1` clamped to 0–1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScoreBreakdown {
    /// From the triggers and commands.
    pub triggers: f64,
    /// From the category.
    pub category: f64,
    /// From the description.
    pub description: f64,
    /// From the tools.
    pub tools: f64,
    /// From the focus areas.
    pub focus: f64,
    /// From the files of the working directory.
    pub files: f64,
    /// From the tier.
    pub tier: f64,
    /// From being a core agent.
    pub core: f64,
    /// From boosting words.
    pub boost: f64,
    /// From the name.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: f64,
    /// From the sections and the instructions.
    #[serde(skip_serializing_if = "is_zero")]
    pub sections: f64,
    /// From words of the same topic.
    #[serde(skip_serializing_if = "is_zero")]
    pub topics: f64,
    /// From words that look alike.
    #[serde(skip_serializing_if = "is_zero")]
    pub similar: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(part: &f64) -> bool {
    *part == 0.0
}

impl ScoreBreakdown {
    /// The parts with their names, in the order of the fields.
    pub fn parts(&self) -> [(&'static str, f64); 13] {
        [
            ("triggers", self.triggers),
            ("category", self.category),
            ("description", self.description),
            ("tools", self.tools),
            ("focus", self.focus),
            ("files", self.files),
            ("tier", self.tier),
            ("core", self.core),
            ("boost", self.boost),
            ("name", self.name),
            ("sections", self.sections),
            ("topics", self.topics),
            ("similar", self.similar),
        ]
    }
}

/// The selection if no agent fits: the default agent with confidence 0, or none.
fn default_selection(config: &AgentsConfig, why: &str, tier: impl FnOnce(&str) -> Option<Tier>) -> Selection {
    let default = config.default_agent.as_ref();
    let Some(name) = default.filter(|name| !config.exclude.contains(name)) else {
        return Selection {
            reason: format!("{why}, and there is no default agent"),
            ..Selection::default()
        };
    };
    Selection {
        use_sdk: true,
        agent: Some(name.clone()),
        tier: tier(name),
        selected_by: SelectedBy::Default,
        reason: format!("{why}; `{name}` is the default"),
        ..Selection::default()
    }
}
