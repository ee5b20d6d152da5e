//! Selects with the words of a task by the algorithm of the configuration. A command that an agent declares decides before
//! any of them.

use async_trait::async_trait;
use holodeck_model::{AgentsConfig, SelectionAlgorithm, Tier};

use super::{
    Asking, PLAIN_COMMAND, RankedAgent, ScoredAgent, SelectError, Selected, SelectedBy, Selection,
    SelectionTask, Selector, globs::Globs, keyword::KeywordSelector, search::SearchSelector,
};
use crate::AgentRegistry;

/// How many agents a selection names beside the selected one.
const ALTERNATIVES: usize = 5;

/// Selects by the words of a task: a pure function of the agents, the configuration and the task, with a total order. The
/// agents are prepared once.
#[derive(Clone, Debug)]
pub struct AgentSelector {
    pub(super) algorithm: Algorithm,
    /// The agents that declare commands, sorted by name; without those that are excluded.
    pub(super) declared: Vec<Declared>,
    pub(super) least: f64,
    /// Whether the words only select if a model that is asked does not.
    pub(super) is_fallback: bool,
}

/// How agents are scored.
#[derive(Clone, Debug)]
pub(super) enum Algorithm {
    Keyword(Box<KeywordSelector>),
    Search(Box<SearchSelector>),
}

/// An agent with the commands that it declares, in lower case.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    tier: Tier,
    pub(super) commands: Vec<String>,
}

impl AgentSelector {
    /// A selector for these agents, of which `min_confidence` is needed. For an algorithm that asks a model it is what selects
    /// if the answer is not usable: `search-v2`; see [`ModelSelector`](super::ModelSelector).
    pub fn new(registry: &AgentRegistry, config: &AgentsConfig, min_confidence: f64) -> Self {
        let docs = registry
            .agents()
            .iter()
            .filter(|doc| !config.exclude.contains(&doc.name));
        let declared = docs.map(|doc| Declared {
            name: doc.name.clone(),
            tier: doc.tier,
            commands: doc
                .commands
                .iter()
                .map(|command| command.trim().to_lowercase())
                .collect(),
        });
        let declared = declared.filter(|agent| !agent.commands.is_empty()).collect();
        let algorithm = match config.algorithm {
            SelectionAlgorithm::KeywordV1 => {
                Algorithm::Keyword(Box::new(KeywordSelector::new(registry, config)))
            }
            SelectionAlgorithm::SearchV2 | SelectionAlgorithm::Embedding | SelectionAlgorithm::Model => {
                Algorithm::Search(Box::new(SearchSelector::new(registry, config, min_confidence)))
            }
        };
        Self {
            algorithm,
            declared,
            least: min_confidence,
            is_fallback: config.algorithm.asks(),
        }
    }

    /// The selection for `task` by its words. It is the same on every platform.
    pub fn select(&self, task: &SelectionTask) -> Selection {
        if let Some(selection) = self.select_declared(&task.command) {
            return selection;
        }
        match &self.algorithm {
            Algorithm::Keyword(selector) => selector.select(task),
            Algorithm::Search(selector) => selector.select(task),
        }
    }

    fn globs(&self) -> &Globs {
        match &self.algorithm {
            Algorithm::Keyword(selector) => selector.globs(),
            Algorithm::Search(selector) => selector.globs(),
        }
    }

    /// Whether the files of the working directory matter.
    pub fn uses_files(&self) -> bool {
        !self.globs().is_empty()
    }

    /// Which `globs` of the agents match one of these files of the working directory, in the order of the agents.
    pub fn matched_globs(&self, files: &[String]) -> Vec<bool> {
        self.globs().matched(files)
    }

    /// All agents with their scores by the words of the task, the best first; of equal scores, by name.
    pub fn rank(&self, task: &SelectionTask) -> Vec<ScoredAgent> {
        match &self.algorithm {
            Algorithm::Keyword(selector) => selector.rank(task),
            Algorithm::Search(selector) => selector.rank(task),
        }
    }

    /// The first agent by name that declares the command of the task.
    pub(super) fn select_declared(&self, command: &str) -> Option<Selection> {
        let command = command.trim().to_lowercase();
        if command.is_empty() || command == PLAIN_COMMAND {
            return None;
        }
        let mut declared = self
            .declared
            .iter()
            .filter(|agent| agent.commands.contains(&command));
        let agent = declared.next()?;
        let others = declared.take(ALTERNATIVES).map(|other| RankedAgent {
            agent: other.name.clone(),
            score: 1.0,
        });
        let others: Vec<RankedAgent> = others.collect();
        let mut reason = format!("it declares the command `{command}`");
        if let Some(other) = others.first() {
            reason = format!("{reason}; so does `{}`, which comes later by name", other.agent);
        }
        Some(Selection {
            use_sdk: true,
            agent: Some(agent.name.clone()),
            tier: Some(agent.tier),
            confidence: 1.0,
            selected_by: SelectedBy::Command,
            reason,
            ranked_alternatives: others,
            ..Selection::default()
        })
    }
}

#[async_trait]
impl Selector for AgentSelector {
    async fn select(&self, task: &SelectionTask, _: &Asking<'_>) -> Result<Selected, SelectError> {
        Ok(Self::select(self, task).into())
    }
}
