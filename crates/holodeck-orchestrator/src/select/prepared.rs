//! An agent as the selector compares it: everything that does not depend on the task is computed once.

use holodeck_model::{AgentDoc, SelectionWeights, Tier};

use super::{
    categories,
    components::{Parts, Shares, millionths},
    phrases::{Phrase, TaskWords, Vocabulary, Word, long_words},
};
use crate::registry::written_names;

/// Words of descriptions have at least this number of letters.
const LONG: usize = 4;

/// Words of descriptions that say nothing about an agent.
const STOP_WORDS: &[&str] = &[
    "about",
    "after",
    "agent",
    "agents",
    "also",
    "been",
    "before",
    "being",
    "best",
    "both",
    "could",
    "does",
    "each",
    "every",
    "expert",
    "from",
    "good",
    "have",
    "help",
    "helps",
    "into",
    "just",
    "like",
    "make",
    "makes",
    "more",
    "most",
    "much",
    "must",
    "need",
    "needs",
    "only",
    "other",
    "over",
    "proactively",
    "should",
    "some",
    "specialist",
    "such",
    "task",
    "tasks",
    "than",
    "that",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "under",
    "until",
    "upon",
    "used",
    "user",
    "users",
    "uses",
    "using",
    "very",
    "want",
    "wants",
    "well",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "will",
    "with",
    "work",
    "would",
    "your",
];

/// At most this number of keywords of a focus area count.
const KEYWORDS: usize = 5;

/// A task, prepared once for all agents.
pub(super) struct PreparedTask {
    pub(super) words: TaskWords,
    pub(super) command: String,
    pub(super) category: Option<String>,
    pub(super) is_complex: bool,
    /// For each glob of the selector, whether a file of the working directory matches.
    pub(super) globs: Vec<bool>,
}

/// An agent, prepared once for all tasks.
#[derive(Clone, Debug)]
pub(super) struct PreparedAgent {
    pub(super) name: String,
    pub(super) tier: Tier,
    pub(super) core: bool,
    pub(super) triggers: Vec<Phrase>,
    pub(super) commands: Vec<String>,
    category: Option<Category>,
    description: Vec<Word>,
    tools: Vec<Phrase>,
    focus: Vec<(Phrase, Vec<Phrase>)>,
    boost: Vec<Phrase>,
    boost_amount: i64,
    /// The numbers of its globs in the selector.
    pub(super) globs: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Category {
    name: String,
    phrase: Phrase,
    related: Vec<Phrase>,
}

impl PreparedAgent {
    pub(super) fn new(doc: &AgentDoc, words: &mut Vocabulary, globs: Vec<usize>) -> Self {
        let mut phrases = |texts: &[String]| -> Vec<Phrase> {
            let phrases = texts.iter().map(|text| words.add(text));
            phrases.filter(|phrase| !phrase.0.is_empty()).collect()
        };
        let triggers = phrases(&doc.triggers);
        let tools = phrases(&written_names(doc));
        let boost = phrases(doc.boosts.as_ref().map_or(&[][..], |boost| &boost.keywords));
        let focus = doc.focus_areas.iter().map(|area| {
            let keywords = area.keywords.get(..KEYWORDS).unwrap_or(&area.keywords);
            (
                words.add(&area.name),
                keywords.iter().map(|word| words.add(word)).collect(),
            )
        });
        let focus = focus.collect();
        let mut description: Vec<Word> = long_words(&doc.description, LONG)
            .iter()
            .filter(|word| !STOP_WORDS.contains(&word.as_str()))
            .flat_map(|word| words.add(word).0)
            .collect();
        description.sort_unstable();
        description.dedup();
        Self {
            name: doc.name.clone(),
            tier: doc.tier,
            core: doc.core,
            triggers,
            commands: doc
                .commands
                .iter()
                .map(|command| command.trim().to_lowercase())
                .filter(|command| !command.is_empty())
                .collect(),
            category: doc.category.as_ref().map(|category| Category {
                name: category.to_lowercase(),
                phrase: words.add(category),
                related: categories::related(category)
                    .into_iter()
                    .map(|word| words.add(word))
                    .collect(),
            }),
            description,
            tools,
            focus,
            boost,
            boost_amount: millionths(doc.boosts.as_ref().map_or(0.0, |boost| boost.amount)),
            globs,
        }
    }

    pub(super) fn score(&self, task: &PreparedTask, weights: &SelectionWeights) -> Parts {
        let has_boost = self.boost.iter().any(|phrase| task.words.has(phrase));
        let has_file = self.globs.iter().any(|glob| task.globs.get(*glob) == Some(&true));
        let shares = Shares {
            triggers: self.trigger_share(task),
            category: self.category_share(task),
            description: share(
                self.description
                    .iter()
                    .filter(|word| task.words.has_word(**word))
                    .count(),
                self.description.len(),
            ),
            tools: share(
                self.tools.iter().filter(|tool| task.words.has(tool)).count(),
                self.tools.len(),
            ),
            focus: self.focus_share(task),
            files: f64::from(u8::from(has_file)),
        };
        Parts {
            tier: tier_part(self.tier, task.is_complex),
            core: if self.core { 50_000 } else { 0 },
            boost: if has_boost { self.boost_amount } else { 0 },
            ..Parts::weighted(shares, weights)
        }
    }

    /// The highest score that a task can have.
    pub(super) fn highest(&self, weights: &SelectionWeights) -> i64 {
        let if_any = |any: bool| f64::from(u8::from(any));
        let focus: f64 = self
            .focus
            .iter()
            .map(|(_, keywords)| 0.5 + 0.1 * keywords.len() as f64)
            .sum();
        let shares = Shares {
            triggers: if self.commands.is_empty() {
                (self.triggers.len() as f64 / needed(self.triggers.len()) as f64).min(1.0)
            } else {
                1.0
            },
            category: if_any(self.category.is_some()),
            description: if_any(!self.description.is_empty()),
            tools: if_any(!self.tools.is_empty()),
            focus: focus.min(1.0),
            files: if_any(!self.globs.is_empty()),
        };
        let parts = Parts {
            tier: tier_part(self.tier, false).max(tier_part(self.tier, true)),
            core: if self.core { 50_000 } else { 0 },
            boost: if self.boost.is_empty() {
                0
            } else {
                self.boost_amount.max(0)
            },
            ..Parts::weighted(shares, weights)
        };
        parts.score()
    }

    /// Whether nothing but the words of its description and the names of its tools could select it.
    pub(super) fn has_only_description(&self) -> bool {
        let declares = !self.triggers.is_empty() || !self.commands.is_empty() || !self.boost.is_empty();
        !declares && self.category.is_none() && self.focus.is_empty()
    }

    /// Whether every task has the same score for both.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        let category = |agent: &Self| agent.category.as_ref().map(|category| category.name.clone());
        (self.tier, self.core, self.boost_amount) == (other.tier, other.core, other.boost_amount)
            && (&self.triggers, &self.commands, &self.description)
                == (&other.triggers, &other.commands, &other.description)
            && (&self.tools, &self.focus, &self.boost) == (&other.tools, &other.focus, &other.boost)
            && self.globs == other.globs
            && category(self) == category(other)
    }

    /// 1 for a whole trigger and 0.5 for all its words, divided by the number of triggers up to three: many triggers are no
    /// handicap. A command of the agent is as good as all of them.
    fn trigger_share(&self, task: &PreparedTask) -> f64 {
        if self.commands.contains(&task.command) {
            return 1.0;
        }
        let hits: f64 = self
            .triggers
            .iter()
            .map(|trigger| {
                if task.words.has(trigger) {
                    1.0
                } else if task.words.has_all(trigger) {
                    0.5
                } else {
                    0.0
                }
            })
            .sum();
        (hits / needed(self.triggers.len()) as f64).min(1.0)
    }

    fn category_share(&self, task: &PreparedTask) -> f64 {
        let Some(category) = &self.category else {
            return 0.0;
        };
        if task.category.as_ref() == Some(&category.name) {
            1.0
        } else if task.words.has(&category.phrase) {
            0.7
        } else if category.related.iter().any(|word| task.words.has(word)) {
            0.4
        } else {
            0.0
        }
    }

    fn focus_share(&self, task: &PreparedTask) -> f64 {
        let tenths: usize = self
            .focus
            .iter()
            .map(|(name, keywords)| {
                let named = usize::from(task.words.has(name));
                5 * named + keywords.iter().filter(|keyword| task.words.has(keyword)).count()
            })
            .sum();
        (tenths as f64 / 10.0).min(1.0)
    }
}

/// How many triggers are a full score.
fn needed(triggers: usize) -> usize {
    triggers.clamp(1, 3)
}

fn share(found: usize, of: usize) -> f64 {
    found as f64 / of.max(1) as f64
}

/// Complex tasks are for agents that plan.
fn tier_part(tier: Tier, is_complex: bool) -> i64 {
    match (tier, is_complex) {
        (Tier::Strategist, false) => 120_000,
        (Tier::Strategist, true) => 220_000,
        (Tier::HeuristicWrapper, false) => 50_000,
        (Tier::HeuristicWrapper, true) => -50_000,
    }
}
