//! Selects the specialist for a task: a pure function of its inputs, or of these and what a model answers.

mod calibration;
mod categories;
mod components;
mod globs;
mod keyword;
mod meaning;
pub(crate) mod model;
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

use async_trait::async_trait;
use holodeck_backend_api::BackendError;
use holodeck_model::{AgentsConfig, Spent, Tier};
use holodeck_turn::TurnRecord;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use meaning::EmbeddingSelector;
pub use model::{ModelSelector, SelectionModel};
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

/// Selects an agent. The same task always has the same selection, if the same answers are given to what is asked for it.
#[async_trait]
pub trait Selector: Send + Sync {
    /// The question to a model without whose answer the selection for `task` is not known; `None`: no model is asked.
    fn question(&self, task: &SelectionTask) -> Option<SelectionQuestion> {
        let _ = task;
        None
    }

    /// The selection for `task`.
    async fn select(&self, task: &SelectionTask, asking: &Asking<'_>) -> Result<Selected, SelectError>;
}

/// For what a model is asked to select an agent.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Asking<'a> {
    /// The unit in recordings, such as a test case.
    pub unit: Option<&'a str>,
    /// Which trial of its test case, from 0.
    pub trial: u32,
    /// Stops it.
    pub cancel: &'a CancellationToken,
}

/// A selection, with the call of the model that was asked for it.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "selectors construct it as a literal")]
pub struct Selected {
    /// The selection.
    pub selection: Selection,
    /// The call.
    pub call: Option<Box<TurnRecord>>,
}

impl From<Selection> for Selected {
    /// No model was asked.
    fn from(selection: Selection) -> Self {
        Self {
            selection,
            call: None,
        }
    }
}

/// Why there is no selection at all.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// It was stopped.
    #[error("cancelled")]
    Cancelled,
    /// A recording has no answer to the question.
    #[error(transparent)]
    NoAnswer(BackendError),
}

/// The question to a model that was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SelectionQuestion {
    /// The model.
    pub model: String,
    /// How many agents it chooses from.
    pub agents: usize,
    /// The length of the question in bytes.
    pub bytes: usize,
}

/// The calls of a model for a selection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AskedModel {
    /// The model.
    pub model: String,
    /// Its calls with tokens and cost.
    #[serde(flatten)]
    pub spent: Spent,
    /// Why its answer was not usable, so that the words of the task selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl AskedModel {
    /// Says that the words of the task selected in its place, and why.
    pub fn fallback(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(format!(
            "`search-v2` selected, because the answer of `{}` is not usable: {problem}",
            self.model
        ))
    }
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
    /// The model that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedModel>,
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
    /// A model, which chose it.
    Model,
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
