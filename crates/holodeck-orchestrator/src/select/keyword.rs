//! The algorithm `keyword-v1`: agents are scored by the words of the task.

use std::cmp::Reverse;

use holodeck_model::AgentsConfig;

use super::{
    RankedAgent, ScoredAgent, SelectedBy, Selection, SelectionTask,
    components::{Parts, as_score, millionths},
    globs::{Globs, GlobsBuilder},
    phrases::{Phrase, Vocabulary},
    prepared::{PreparedAgent, PreparedTask},
};
use crate::AgentRegistry;

/// A longer task is complex.
const COMPLEX_LENGTH: usize = 160;

/// A task with two of these is complex.
const COMPLEX_TERMS: &[&str] = &[
    "architecture",
    "migration",
    "fullstack",
    "end-to-end",
    "multi-step",
    "integration",
    "refactor",
    "compliance",
    "staging",
    "rollout",
];

/// How many agents a selection names beside the selected one.
const ALTERNATIVES: usize = 5;

/// Selects by the algorithm `keyword-v1`: a pure function of the agents, the configuration and the task, with a total
/// order. The agents are prepared once.
#[derive(Clone, Debug)]
pub(super) struct KeywordSelector {
    pub(super) config: AgentsConfig,
    /// Sorted by name; without those that are excluded.
    pub(super) agents: Vec<PreparedAgent>,
    words: Vocabulary,
    complex_terms: Vec<Phrase>,
    globs: Globs,
}

impl KeywordSelector {
    /// A selector for these agents.
    pub(super) fn new(registry: &AgentRegistry, config: &AgentsConfig) -> Self {
        let mut words = Vocabulary::default();
        let complex_terms = COMPLEX_TERMS.iter().map(|term| words.add(term)).collect();
        let mut globs = GlobsBuilder::default();
        let mut agents = Vec::new();
        for doc in registry.agents() {
            if !config.exclude.contains(&doc.name) {
                let own = globs.add(doc);
                agents.push(PreparedAgent::new(doc, &mut words, own));
            }
        }
        Self {
            config: config.clone(),
            agents,
            words,
            complex_terms,
            globs: globs.build(),
        }
    }

    pub(super) fn globs(&self) -> &Globs {
        &self.globs
    }

    /// All agents with their scores, the best first; of equal scores, by name.
    pub(super) fn rank(&self, task: &SelectionTask) -> Vec<ScoredAgent> {
        let order = self.order(task);
        order
            .into_iter()
            .map(|(agent, parts)| scored(agent, &parts))
            .collect()
    }

    pub(super) fn order(&self, task: &SelectionTask) -> Vec<(&PreparedAgent, Parts)> {
        let task = self.prepare(task);
        let weights = &self.config.weights;
        let scored = self
            .agents
            .iter()
            .map(|agent| (agent, agent.score(&task, weights)));
        let mut order: Vec<_> = scored.collect();
        // The agents are sorted by name, and the sort is stable.
        order.sort_by_key(|(_, parts)| Reverse(parts.score()));
        order
    }

    fn prepare(&self, task: &SelectionTask) -> PreparedTask {
        let words = self.words.read(&task.text);
        let terms = self.complex_terms.iter().filter(|term| words.has(term)).count();
        let is_complex = terms >= 2 || task.text.chars().count() > COMPLEX_LENGTH;
        PreparedTask {
            words,
            command: task.command.trim().to_lowercase(),
            category: task
                .category
                .as_ref()
                .map(|category| category.trim().to_lowercase()),
            is_complex,
            globs: self.globs.matched(&task.files),
        }
    }

    pub(super) fn floor(&self) -> i64 {
        millionths(self.config.candidate_floor)
    }

    fn select_default(&self) -> Selection {
        let why = format!("no agent reaches a score of {}", self.config.candidate_floor);
        super::default_selection(&self.config, &why, |name| {
            self.agents
                .iter()
                .find(|agent| agent.name == name)
                .map(|agent| agent.tier)
        })
    }

    pub(super) fn select(&self, task: &SelectionTask) -> Selection {
        let order = self.order(task);
        let floor = self.floor();
        let mut candidates = order
            .iter()
            .filter(|(_, parts)| parts.score() >= floor && parts.score() > 0);
        let Some((agent, parts)) = candidates.next() else {
            return self.select_default();
        };
        let breakdown = parts.breakdown();
        let alternatives = candidates.take(ALTERNATIVES).map(|(agent, parts)| RankedAgent {
            agent: agent.name.clone(),
            score: as_score(parts.score()),
        });
        let shown = breakdown.parts().into_iter().filter(|(_, part)| *part != 0.0);
        let shown: Vec<String> = shown.map(|(name, part)| format!("{name} {part:.2}")).collect();
        Selection {
            use_sdk: true,
            agent: Some(agent.name.clone()),
            tier: Some(agent.tier),
            confidence: as_score(parts.score()),
            selected_by: SelectedBy::Score,
            reason: format!("highest score: {}", shown.join(", ")),
            breakdown,
            ranked_alternatives: alternatives.collect(),
            asked: None,
        }
    }
}

fn scored(agent: &PreparedAgent, parts: &Parts) -> ScoredAgent {
    ScoredAgent {
        agent: agent.name.clone(),
        tier: agent.tier,
        score: as_score(parts.score()),
        breakdown: parts.breakdown(),
    }
}
