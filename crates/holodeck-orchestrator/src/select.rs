//! Selects the specialist for a task: a pure function of its inputs.

mod categories;
mod components;
mod keyword;
mod phrases;
mod prepared;
mod review;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use holodeck_model::Tier;
use serde::Serialize;

pub use keyword::KeywordSelector;

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
    /// Its score, 0–1.
    pub score: f64,
}

/// An agent with its score and how the score was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScoredAgent {
    /// The agent.
    pub agent: String,
    /// Its rank.
    pub tier: Tier,
    /// Its score, 0–1.
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
    /// No agent reached the floor; it is the default.
    Default,
}

/// The parts of a score; their sum, clamped to 0–1, is the score.
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
}

impl ScoreBreakdown {
    /// The parts with their names, in the order of the fields.
    pub fn parts(&self) -> [(&'static str, f64); 9] {
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
        ]
    }
}
