//! The algorithm `search-v2`: agents are found like documents, by the words of the task. The same task has the same
//! scores on every platform, because all numbers are whole.

mod index;
mod numbers;
mod words;

use std::cmp::Reverse;

use holodeck_model::{AgentsConfig, Tier};

use self::{
    index::{Index, Part},
    words::TaskWords,
};
use super::{
    RankedAgent, ScoredAgent, SelectedBy, Selection, SelectionTask,
    calibration::{self, Evidence},
    components::as_score,
    globs::{Globs, GlobsBuilder},
};
use crate::AgentRegistry;

/// How many agents a selection names beside the selected one.
const ALTERNATIVES: usize = 5;

/// How many words a reason names.
const SHOWN_WORDS: usize = 5;

/// A whole trigger beside the evidence of its words, in millionths, and the most that triggers add.
const TRIGGER: i64 = 600_000;
const ALL_TRIGGERS: i64 = 1_200_000;

/// A file of the working directory that is one of the agent's `globs`.
const FILE: i64 = 250_000;

/// The category that the caller expects.
const CATEGORY: i64 = 1_000_000;

/// Selects by the algorithm `search-v2`. The agents are prepared once.
#[derive(Clone, Debug)]
pub(super) struct SearchSelector {
    pub(super) config: AgentsConfig,
    /// The confidence below which the default agent takes over, if it may.
    least: f64,
    /// Sorted by name; without those that are excluded.
    pub(super) agents: Vec<Found>,
    index: Index,
    globs: Globs,
}

/// An agent, without its words.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: String,
    tier: Tier,
    category: Option<String>,
    globs: Vec<usize>,
}

/// The evidence for an agent by its parts, in millionths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals([i64; Part::COUNT]);

impl Totals {
    fn add(&mut self, part: Part, evidence: i64) {
        if let Some(total) = self.0.get_mut(part as usize) {
            *total += evidence;
        }
    }

    pub(super) fn score(&self) -> i64 {
        self.0.iter().sum()
    }

    fn breakdown(&self) -> super::ScoreBreakdown {
        let [
            name,
            triggers,
            category,
            description,
            focus,
            sections,
            files,
            topics,
            similar,
        ] = self.0.map(as_score);
        super::ScoreBreakdown {
            triggers,
            category,
            description,
            focus,
            files,
            name,
            sections,
            topics,
            similar,
            ..super::ScoreBreakdown::default()
        }
    }
}

impl SearchSelector {
    pub(super) fn new(registry: &AgentRegistry, config: &AgentsConfig, least: f64) -> Self {
        let mut globs = GlobsBuilder::default();
        let docs = registry.agents().iter();
        let docs: Vec<_> = docs.filter(|doc| !config.exclude.contains(&doc.name)).collect();
        let agents = docs.iter().map(|doc| Found {
            name: doc.name.clone(),
            tier: doc.tier,
            category: doc
                .category
                .as_ref()
                .map(|category| category.trim().to_lowercase()),
            globs: globs.add(doc),
        });
        let agents = agents.collect();
        Self {
            config: config.clone(),
            least,
            agents,
            index: Index::new(&docs),
            globs: globs.build(),
        }
    }

    pub(super) fn globs(&self) -> &Globs {
        &self.globs
    }

    /// All agents with their scores, the best first; of equal scores, by name.
    pub(super) fn rank(&self, task: &SelectionTask) -> Vec<ScoredAgent> {
        let order = self.order(task).into_iter();
        order
            .map(|(agent, totals)| ScoredAgent {
                agent: agent.name.clone(),
                tier: agent.tier,
                score: as_score(totals.score()),
                breakdown: totals.breakdown(),
            })
            .collect()
    }

    pub(super) fn order(&self, task: &SelectionTask) -> Vec<(&Found, Totals)> {
        let mut totals = vec![Totals::default(); self.agents.len()];
        let mut add = |agent: usize, part: Part, evidence: i64| {
            if let Some(totals) = totals.get_mut(agent) {
                totals.add(part, evidence);
            }
        };
        let words = TaskWords::new(task);
        self.index.search(&words, |_, agent, part, evidence| {
            add(agent, part, evidence);
        });
        for (agent, count) in self.index.whole_triggers(&words.stems) {
            add(
                agent,
                Part::Triggers,
                TRIGGER.saturating_mul(count).min(ALL_TRIGGERS),
            );
        }
        let matched = self.globs.matched(&task.files);
        let category = task
            .category
            .as_ref()
            .map(|category| category.trim().to_lowercase());
        for (number, agent) in self.agents.iter().enumerate() {
            if agent.globs.iter().any(|glob| matched.get(*glob) == Some(&true)) {
                add(number, Part::Files, FILE);
            }
            if category.is_some() && category == agent.category {
                add(number, Part::Category, CATEGORY);
            }
        }
        let mut order: Vec<_> = self.agents.iter().zip(totals).collect();
        // The agents are sorted by name, and the sort is stable.
        order.sort_by_key(|(_, totals)| Reverse(totals.score()));
        order
    }

    pub(super) fn select(&self, task: &SelectionTask) -> Selection {
        let order = self.order(task);
        let mut candidates = order.iter().filter(|(_, totals)| totals.score() > 0);
        let Some((agent, totals)) = candidates.next() else {
            return self.select_default(task);
        };
        let next = order.get(1).map_or(0, |(_, totals)| totals.score());
        let confidence = calibration::confidence(Evidence {
            score: totals.score(),
            next,
        });
        if self.config.default_agent_routes && confidence < self.least {
            return self.select_default(task);
        }
        let alternatives = candidates.take(ALTERNATIVES).map(|(agent, totals)| RankedAgent {
            agent: agent.name.clone(),
            score: as_score(totals.score()),
        });
        let words = self.words_for(task, &agent.name);
        let because = if words.is_empty() {
            "its files or its category".to_owned()
        } else {
            words.join(", ")
        };
        let ahead = as_score(totals.score() - next);
        let reason = format!(
            "best match ({because}): score {:.2}, {ahead:.2} ahead",
            as_score(totals.score())
        );
        Selection {
            use_sdk: true,
            agent: Some(agent.name.clone()),
            tier: Some(agent.tier),
            confidence,
            selected_by: SelectedBy::Score,
            reason,
            breakdown: totals.breakdown(),
            ranked_alternatives: alternatives.collect(),
            asked: None,
        }
    }

    /// The terms of the task that speak for an agent, the strongest first.
    fn words_for(&self, task: &SelectionTask, name: &str) -> Vec<String> {
        let mut found: Vec<(i64, String)> = Vec::new();
        let number = self.agents.iter().position(|agent| agent.name == name);
        self.index
            .search(&TaskWords::new(task), |term, agent, _, evidence| {
                if Some(agent) == number {
                    found.push((evidence, term.to_owned()));
                }
            });
        found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        found.truncate(SHOWN_WORDS);
        found.into_iter().map(|(_, term)| term).collect()
    }

    /// The default agent, because no agent fits well enough.
    fn select_default(&self, task: &SelectionTask) -> Selection {
        let why = if TaskWords::new(task).terms.is_empty() {
            "the task has no word that says what it is about"
        } else {
            "no agent fits the words of the task"
        };
        super::default_selection(&self.config, why, |name| {
            self.agents
                .iter()
                .find(|agent| agent.name == name)
                .map(|agent| agent.tier)
        })
    }

    /// Agents that have the same evidence for every task, each with the first of them.
    pub(super) fn equal_agents(&self) -> Vec<(&str, &str)> {
        let pairs = self.index.equal_agents().into_iter();
        pairs
            .filter_map(|(agent, first)| Some((self.agents.get(agent)?, self.agents.get(first)?)))
            .filter(|(agent, first)| (&agent.globs, &agent.category) == (&first.globs, &first.category))
            .map(|(agent, first)| (&*agent.name, &*first.name))
            .collect()
    }
}
