//! The algorithm `keyword-v1`: agents are scored by the words of the task.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use holodeck_model::{AgentDoc, AgentsConfig};

use super::{
    RankedAgent, ScoredAgent, SelectedBy, Selection, SelectionTask, Selector,
    components::{Parts, as_score, millionths},
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

/// At most this number of files of the working directory is looked at.
const MAX_FILES: usize = 2_000;

/// How many agents a selection names beside the selected one.
const ALTERNATIVES: usize = 5;

/// Selects by the algorithm `keyword-v1`: a pure function of the agents, the configuration and the task, with a total
/// order. The agents are prepared once.
#[derive(Clone, Debug)]
pub struct KeywordSelector {
    pub(super) config: AgentsConfig,
    /// Sorted by name; without those that are excluded.
    pub(super) agents: Vec<PreparedAgent>,
    words: Vocabulary,
    complex_terms: Vec<Phrase>,
    globs: GlobSet,
}

impl KeywordSelector {
    /// A selector for these agents.
    pub fn new(registry: &AgentRegistry, config: &AgentsConfig) -> Self {
        let mut words = Vocabulary::default();
        let complex_terms = COMPLEX_TERMS.iter().map(|term| words.add(term)).collect();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut globs = GlobSetBuilder::new();
        let mut agents = Vec::new();
        for doc in registry.agents() {
            if config.exclude.contains(&doc.name) {
                continue;
            }
            let mut own = Vec::new();
            for pattern in &doc.globs {
                let next = numbers.len();
                if let Some(number) = numbers.get(pattern) {
                    own.push(*number);
                } else if let Some(glob) = compile(pattern) {
                    globs.add(glob);
                    numbers.insert(pattern.clone(), next);
                    own.push(next);
                }
            }
            agents.push(PreparedAgent::new(doc, &mut words, own));
        }
        Self {
            config: config.clone(),
            agents,
            words,
            complex_terms,
            globs: globs.build().unwrap_or_default(),
        }
    }

    /// Whether the files of the working directory matter.
    pub fn uses_files(&self) -> bool {
        !self.globs.is_empty()
    }

    /// All agents with their scores, the best first; of equal scores, by name.
    pub fn rank(&self, task: &SelectionTask) -> Vec<ScoredAgent> {
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
            globs: self.matched_globs(&task.files),
        }
    }

    /// Which `globs` of the agents match one of these files of the working directory, in the order of the agents.
    pub fn matched_globs(&self, files: &[String]) -> Vec<bool> {
        let mut globs = vec![false; self.globs.len()];
        if self.uses_files() {
            // The first files in order, however they were listed.
            let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
            for file in files.into_iter().take(MAX_FILES) {
                for matched in self.globs.matches(file) {
                    if let Some(glob) = globs.get_mut(matched) {
                        *glob = true;
                    }
                }
            }
        }
        globs
    }

    pub(super) fn floor(&self) -> i64 {
        millionths(self.config.candidate_floor)
    }

    fn select_default(&self) -> Selection {
        let floor = self.config.candidate_floor;
        let default = self.config.default_agent.as_ref();
        let Some(name) = default.filter(|name| !self.config.exclude.contains(name)) else {
            return Selection {
                reason: format!("no agent reaches a score of {floor}, and there is no default agent"),
                ..Selection::default()
            };
        };
        let agent = self.agents.iter().find(|agent| agent.name == *name);
        Selection {
            use_sdk: true,
            agent: Some(name.clone()),
            tier: agent.map(|agent| agent.tier),
            selected_by: SelectedBy::Default,
            reason: format!("no agent reaches a score of {floor}; `{name}` is the default"),
            ..Selection::default()
        }
    }
}

impl Selector for KeywordSelector {
    fn select(&self, task: &SelectionTask) -> Selection {
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

/// A pattern for paths relative to the working directory; one without `/` matches names in any folder.
fn compile(pattern: &str) -> Option<globset::Glob> {
    let pattern = pattern.trim().trim_start_matches("./");
    let pattern = match pattern.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    GlobBuilder::new(&pattern).literal_separator(true).build().ok()
}

/// The globs of an agent that are not patterns.
pub(super) fn bad_globs(doc: &AgentDoc) -> impl Iterator<Item = &String> {
    doc.globs.iter().filter(|pattern| compile(pattern).is_none())
}
