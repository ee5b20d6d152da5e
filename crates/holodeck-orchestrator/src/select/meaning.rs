//! The algorithm `embedding`: the agent whose description means what the task means, by the vectors of an embedding model.
//!
//! Models differ in how similar unrelated texts are, so a similarity counts only against those of the other agents and of
//! texts that no agent is for.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Compared, TextSimilarity};
use holodeck_model::{AgentDoc, AgentsConfig, Tier};
use holodeck_turn::TurnRecord;

use super::{
    AgentSelector, AskedModel, Asking, PLAIN_COMMAND, RankedAgent, ScoreBreakdown, SelectError, Selected,
    SelectedBy, Selection, SelectionQuestion, SelectionTask, Selector, components::as_score,
    default_selection,
};
use crate::AgentRegistry;

/// How many agents a selection names beside the selected one.
const ALTERNATIVES: usize = 5;

/// Other things that people ask: a task that means one of these as much as the best agent is for no agent.
const UNRELATED: [&str; 12] = [
    "Hello, how are you?",
    "Tell me a joke",
    "What is the weather like today?",
    "Recommend a film for tonight",
    "How do I cook rice?",
    "Book a table for two",
    "What is the capital of a country?",
    "Play some music",
    "Set an alarm for seven",
    "Help me with it",
    "Explain how something works",
    "What do you think about life?",
];

/// From this strength on, the confidence: the share of selections that were right on `fixtures/routing/tune.yaml` with the model
/// all-MiniLM-L6-v2, with one right and one wrong added. A test computes it again from the similarities.
pub(super) const TABLE: [(f64, f64); 5] = [
    (f64::NEG_INFINITY, 0.06),
    (1.5, 0.35),
    (2.25, 0.48),
    (3.7, 0.75),
    (4.3, 0.92),
];

/// Selects by the algorithm `embedding`. A command that an agent declares is certain without a comparison.
#[derive(Clone)]
pub struct EmbeddingSelector {
    words: AgentSelector,
    /// Sorted by name; without those that are excluded.
    listed: Arc<[Listed]>,
    /// The texts that are compared with a task: those of the agents in their order, then those that are for no agent.
    texts: Arc<[String]>,
    config: AgentsConfig,
    least: f64,
    similarity: Arc<dyn TextSimilarity>,
}

#[derive(Debug)]
struct Listed {
    name: String,
    tier: Tier,
}

impl EmbeddingSelector {
    /// Compares tasks with the agents by `similarity`; `words` decides about what needs no comparison, and if there is none.
    /// `least` is the confidence below which the default agent takes over, if it may.
    pub fn new(
        words: AgentSelector,
        registry: &AgentRegistry,
        (config, least): (&AgentsConfig, f64),
        similarity: Arc<dyn TextSimilarity>,
    ) -> Self {
        let docs = registry.agents().iter();
        let docs: Vec<&AgentDoc> = docs.filter(|doc| !config.exclude.contains(&doc.name)).collect();
        let listed = docs.iter().map(|doc| Listed {
            name: doc.name.clone(),
            tier: doc.tier,
        });
        let texts = docs.iter().map(|doc| text_of(doc));
        Self {
            words,
            listed: listed.collect(),
            texts: texts.chain(UNRELATED.map(str::to_owned)).collect(),
            config: config.clone(),
            least,
            similarity,
        }
    }

    /// The selection without a comparison, if none is needed.
    fn known(&self, task: &SelectionTask) -> Option<Selection> {
        if let Some(declared) = self.words.select_declared(&task.command) {
            return Some(declared);
        }
        let is_empty = self.listed.is_empty() || query(task).is_empty();
        is_empty.then(|| self.words.select(task))
    }

    fn tier(&self, name: &str) -> Option<Tier> {
        let listed = self.listed.iter().find(|listed| listed.name == name)?;
        Some(listed.tier)
    }

    /// The selection by these similarities, in the order of the texts.
    fn select_similar(&self, cosines: &[i64]) -> Selection {
        let mut order: Vec<(&Listed, i64)> = self.listed.iter().zip(cosines.iter().copied()).collect();
        // The agents are sorted by name, and the sort is stable.
        order.sort_by_key(|(_, cosine)| std::cmp::Reverse(*cosine));
        let Some((best, cosine)) = order.first().copied() else {
            return default_selection(&self.config, "there are no agents", |name| self.tier(name));
        };
        let next = order.get(1).map_or(cosine, |(_, cosine)| *cosine);
        let confidence = confidence(strength(cosine, next, cosines));
        if self.config.default_agent_routes && confidence < self.least {
            let why = "no agent means what the task means";
            return default_selection(&self.config, why, |name| self.tier(name));
        }
        let alternatives = order
            .iter()
            .skip(1)
            .take(ALTERNATIVES)
            .map(|(listed, cosine)| RankedAgent {
                agent: listed.name.clone(),
                score: as_score(*cosine),
            });
        Selection {
            use_sdk: true,
            agent: Some(best.name.clone()),
            tier: Some(best.tier),
            confidence,
            selected_by: SelectedBy::Score,
            reason: format!(
                "closest in meaning by `{}`: {:.2}, {:.2} ahead",
                self.similarity.name(),
                as_score(cosine),
                as_score(cosine - next)
            ),
            breakdown: ScoreBreakdown {
                description: as_score(cosine),
                ..ScoreBreakdown::default()
            },
            ranked_alternatives: alternatives.collect(),
            asked: None,
        }
    }
}

#[async_trait]
impl Selector for EmbeddingSelector {
    fn question(&self, task: &SelectionTask) -> Option<SelectionQuestion> {
        let asks = !self.similarity.is_local() && self.known(task).is_none();
        asks.then(|| SelectionQuestion {
            model: self.similarity.name().to_owned(),
            agents: self.listed.len(),
            bytes: query(task).len() + self.texts.iter().map(String::len).sum::<usize>(),
        })
    }

    async fn select(&self, task: &SelectionTask, asking: &Asking<'_>) -> Result<Selected, SelectError> {
        if let Some(known) = self.known(task) {
            return Ok(known.into());
        }
        let query = query(task);
        let compared = tokio::select! {
            compared = self.similarity.compare(&self.texts, &query) => compared,
            () = asking.cancel.cancelled() => return Err(SelectError::Cancelled),
        };
        let problem = match compared {
            Ok(Compared { cosines, spent }) if cosines.len() == self.texts.len() => {
                let mut selection = self.select_similar(&cosines);
                if spent.is_nothing() {
                    return Ok(selection.into());
                }
                selection.asked = Some(AskedModel {
                    model: self.similarity.name().to_owned(),
                    spent,
                    problem: None,
                });
                let call = Some(Box::new(TurnRecord::of_calls(spent)));
                return Ok(Selected { selection, call });
            }
            Ok(_) => "it compared other texts".to_owned(),
            Err(error @ BackendError::ReplayMiss(_)) => return Err(SelectError::NoAnswer(error)),
            Err(error) => error.to_string(),
        };
        let mut selection = self.words.select(task);
        let asked = AskedModel {
            model: self.similarity.name().to_owned(),
            problem: Some(problem),
            ..AskedModel::default()
        };
        if let Some(note) = asked.fallback() {
            selection.reason = format!("{}; {note}", selection.reason);
        }
        selection.asked = Some(asked);
        Ok(selection.into())
    }
}

/// The text of an agent that is compared.
pub(super) fn text_of(doc: &AgentDoc) -> String {
    let triggers = doc.triggers.join(", ");
    if triggers.is_empty() {
        format!("{}: {}", doc.name, doc.description)
    } else {
        format!("{}: {} ({triggers})", doc.name, doc.description)
    }
}

/// The text of a task that is compared: with the name of the command, if a person named one.
fn query(task: &SelectionTask) -> String {
    let command = task.command.trim();
    if command.is_empty() || command.eq_ignore_ascii_case(PLAIN_COMMAND) {
        task.text.trim().to_owned()
    } else {
        format!("{} {command}", task.text.trim()).trim().to_owned()
    }
}

/// How far the best similarity is above the mean of all, with a quarter of its lead over the second, in standard deviations.
/// Of two that are equal, only the name decides.
pub(super) fn strength(best: i64, next: i64, all: &[i64]) -> f64 {
    let count = all.len() as f64;
    let mean = all.iter().map(|cosine| *cosine as f64).sum::<f64>() / count;
    let deviations = all.iter().map(|cosine| (*cosine as f64 - mean).powi(2));
    let spread = (deviations.sum::<f64>() / count).sqrt();
    let strength = best as f64 - mean + (best - next) as f64 / 4.0;
    if spread > 0.0 && spread.is_finite() {
        strength / spread
    } else {
        f64::NEG_INFINITY
    }
}

/// How confident a selection is, 0–1.
pub(super) fn confidence(strength: f64) -> f64 {
    let row = TABLE.iter().rev().find(|(from, _)| *from <= strength);
    row.map_or(0.0, |(_, confidence)| *confidence)
}

#[cfg(test)]
mod tests;
