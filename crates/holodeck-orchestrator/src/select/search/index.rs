//! The words of all agents, and which agents have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holodeck_model::AgentDoc;

use super::{
    numbers::{ONE, rarity, saturated},
    words::TaskWords,
};
use crate::select::{
    PLAIN_COMMAND,
    terms::{self, RARE, Weight},
    topics::topics,
};

/// A part of an agent's file that speaks for it. The order is that of the parts of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Name,
    Triggers,
    Category,
    Description,
    Focus,
    Sections,
    Files,
    Topics,
    Similar,
}

impl Part {
    pub(super) const COUNT: usize = 9;
}

/// How much a word says that no topic knows.
const OTHER_WORD: Weight = 700;
/// How much a word of the same topic says.
const SAME_TOPIC: Weight = 1_200;
/// How much a word says that looks alike.
const LOOKS_ALIKE: Weight = 300;
/// How alike words must be: shared sequences of three letters, as Dice counts them.
const ALIKE: Weight = 550;
/// Shorter words are not compared by their letters.
const COMPARED: usize = 5;
const COMPARED_TO: usize = 4;
/// An agent with this many core words of a topic, in thousandths, is half about it.
const HALF_ABOUT: i64 = 300;
/// How much of a topic an agent has whose other topics have many more core words.
const BY_THE_WAY: Weight = 100;

/// An agent that has a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Posting {
    agent: usize,
    weight: Weight,
    /// How much the word says by that, in millionths.
    says: i64,
    /// The part that weighs most.
    part: Part,
    /// Whether it is in more than the instructions.
    is_declared: bool,
}

/// The words of all agents.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    agents: usize,
    words: BTreeMap<String, Vec<Posting>>,
    /// For each topic, the agents that are about it, and how much.
    topics: Vec<Vec<(usize, Weight)>>,
    /// Words by their sequences of three letters.
    trigrams: HashMap<[char; 3], Vec<usize>>,
    compared: Vec<(String, usize)>,
    /// The number of words of each trigger, with its agent.
    triggers: Vec<(usize, usize)>,
    by_trigger_word: BTreeMap<String, Vec<usize>>,
}

impl Index {
    pub(super) fn new(docs: &[&AgentDoc]) -> Self {
        let mut index = Self {
            agents: docs.len(),
            topics: vec![Vec::new(); topics().count()],
            ..Self::default()
        };
        for (agent, doc) in docs.iter().enumerate() {
            index.add(agent, doc);
        }
        for posting in index.words.values_mut().flatten() {
            posting.says = saturated(posting.weight);
        }
        let mut compared: Vec<&String> = index
            .words
            .iter()
            .filter(|(word, found)| {
                word.chars().count() >= COMPARED_TO && found.iter().any(|posting| posting.is_declared)
            })
            .map(|(word, _)| word)
            .collect();
        compared.sort_unstable();
        index.compared = compared
            .into_iter()
            .map(|word| (word.clone(), terms::trigrams(word).len()))
            .collect();
        for (number, (word, _)) in index.compared.iter().enumerate() {
            for trigram in terms::trigrams(word) {
                index.trigrams.entry(trigram).or_default().push(number);
            }
        }
        index
    }

    fn add(&mut self, agent: usize, doc: &AgentDoc) {
        let mut words: BTreeMap<String, Posting> = BTreeMap::new();
        let (mut described, mut declared) = (BTreeSet::new(), BTreeSet::new());
        for (part, weight, text) in texts(doc) {
            let is_declared = part != Part::Sections;
            let (terms, stems) = terms::terms_and_stems(&text);
            if is_declared {
                if part != Part::Triggers {
                    described.extend(stems.iter().cloned());
                }
                declared.extend(stems);
            }
            for term in terms {
                let posting = words.entry(term).or_insert(Posting {
                    agent,
                    weight: 0,
                    says: 0,
                    part,
                    is_declared,
                });
                // The texts are sorted by weight, so that the first part weighs most.
                posting.weight += weight;
            }
        }
        for (word, posting) in words {
            self.words.entry(word).or_default().push(posting);
        }
        let name = terms::terms(&doc.name);
        // What an agent is most about does not depend on triggers, so that another one never makes it less about a topic.
        let of_described = topics().of_agent(&described, &name);
        let most = of_described.values().copied().max();
        let of_declared = if declared.len() == described.len() {
            of_described
        } else {
            topics().of_agent(&declared, &name)
        };
        for (topic, count) in of_declared {
            if let Some(topic) = self.topics.get_mut(topic) {
                topic.push((agent, about(count, most.unwrap_or(1))));
            }
        }
        for trigger in &doc.triggers {
            let stems = terms::stems(trigger);
            if stems.is_empty() {
                continue;
            }
            for stem in &stems {
                let triggers = self.by_trigger_word.entry(stem.clone()).or_default();
                triggers.push(self.triggers.len());
            }
            self.triggers.push((agent, stems.len()));
        }
    }

    /// Reports to `found` the evidence of each term for each agent that it speaks for: the strongest of what the term says.
    pub(super) fn search(&self, task: &TaskWords, mut found: impl FnMut(&str, usize, Part, i64)) {
        let about = topics().of_task(&task.stems);
        let mut best: Vec<(i64, Part)> = vec![(0, Part::Name); self.agents];
        let mut touched = Vec::new();
        for (term, counts) in &task.terms {
            let start = about.partition_point(|about| about.term < *term);
            let of_term = about.get(start..).unwrap_or_default();
            let mut of_term = of_term.iter().take_while(|about| about.term == *term).peekable();
            if of_term.peek().is_none() && self.words.contains_key(term) {
                // Each agent has the word once, and the agents are in order: nothing has to be compared.
                self.find_word(term, &mut |agent, part, evidence| {
                    let evidence = evidence * counts / RARE;
                    if evidence > 0 {
                        found(term, agent, part, evidence);
                    }
                });
                continue;
            }
            let mut raise = |agent: usize, part: Part, evidence: i64| {
                let evidence = evidence * counts / RARE;
                if let Some(best) = best.get_mut(agent).filter(|best| best.0 < evidence) {
                    if best.0 == 0 {
                        touched.push(agent);
                    }
                    *best = (evidence, part);
                }
            };
            self.find_word(term, &mut raise);
            for about in of_term {
                let agents = self
                    .topics
                    .get(about.topic)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let having = agents.iter().map(|(_, strength)| strength).sum();
                let says = rarity(having, self.agents) * about.weight / RARE * SAME_TOPIC / RARE;
                for (agent, strength) in agents {
                    raise(*agent, Part::Topics, says * strength / RARE);
                }
            }
            touched.sort_unstable();
            for agent in touched.drain(..) {
                if let Some(best) = best.get_mut(agent) {
                    let (evidence, part) = std::mem::replace(best, (0, Part::Name));
                    found(term, agent, part, evidence);
                }
            }
        }
    }

    fn find_word(&self, term: &str, raise: &mut impl FnMut(usize, Part, i64)) {
        let weight = terms::weight(term);
        if let Some(postings) = self.words.get(term) {
            let known = if topics().knows(term) { RARE } else { OTHER_WORD };
            let says = rarity(having(postings), self.agents) * weight / RARE * known / RARE;
            for posting in postings {
                raise(posting.agent, posting.part, says * posting.says / ONE);
            }
            return;
        }
        for (word, alike) in self.alike(term) {
            let Some(postings) = self.words.get(word) else {
                continue;
            };
            let weight = weight.min(terms::weight(word));
            let says =
                rarity(having(postings), self.agents) * weight / RARE * LOOKS_ALIKE / RARE * alike / RARE;
            for posting in postings.iter().filter(|posting| posting.is_declared) {
                raise(posting.agent, Part::Similar, says * posting.says / ONE);
            }
        }
    }

    /// Words of agents that look like a term which no agent has, with how alike they are.
    fn alike(&self, term: &str) -> Vec<(&str, Weight)> {
        if term.chars().count() < COMPARED {
            return Vec::new();
        }
        let own = terms::trigrams(term);
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for trigram in &own {
            for number in self.trigrams.get(trigram).into_iter().flatten() {
                *shared.entry(*number).or_default() += 1;
            }
        }
        let alike = shared.into_iter().filter_map(|(number, shared)| {
            let (word, count) = self.compared.get(number)?;
            let alike = 2_000 * shared / (own.len() + count).max(1);
            let alike = Weight::try_from(alike).unwrap_or_default();
            (alike >= ALIKE).then_some((word.as_str(), alike))
        });
        alike.collect()
    }

    /// How many whole triggers the task has, by agent: all words of a trigger, in any order.
    pub(super) fn whole_triggers(&self, stems: &BTreeSet<String>) -> BTreeMap<usize, i64> {
        let mut counts: Vec<usize> = vec![0; self.triggers.len()];
        for stem in stems {
            for trigger in self.by_trigger_word.get(stem).into_iter().flatten() {
                if let Some(count) = counts.get_mut(*trigger) {
                    *count += 1;
                }
            }
        }
        let mut whole: BTreeMap<usize, i64> = BTreeMap::new();
        for ((agent, length), count) in self.triggers.iter().zip(counts) {
            if *length == count {
                *whole.entry(*agent).or_default() += 1;
            }
        }
        whole
    }

    /// Agents with the same words in the same parts, each with the first of them.
    pub(super) fn equal_agents(&self) -> Vec<(usize, usize)> {
        let mut own: BTreeMap<usize, BTreeMap<&str, (Weight, bool)>> = BTreeMap::new();
        for (word, postings) in &self.words {
            for posting in postings {
                let words = own.entry(posting.agent).or_default();
                words.insert(word, (posting.weight, posting.is_declared));
            }
        }
        let mut triggers: BTreeMap<usize, Vec<BTreeSet<&str>>> = BTreeMap::new();
        let mut words: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for (word, numbers) in &self.by_trigger_word {
            for number in numbers {
                words.entry(*number).or_default().insert(word);
            }
        }
        for (number, (agent, _)) in self.triggers.iter().enumerate() {
            let words = words.remove(&number).unwrap_or_default();
            triggers.entry(*agent).or_default().push(words);
        }
        for list in triggers.values_mut() {
            list.sort_unstable();
        }
        let mut first = BTreeMap::new();
        let mut equal = Vec::new();
        for agent in 0..self.agents {
            let key = (own.remove(&agent), triggers.remove(&agent));
            match first.get(&key) {
                Some(first) => equal.push((agent, *first)),
                None => drop(first.insert(key, agent)),
            }
        }
        equal
    }
}

/// How much an agent is about a topic with this many core words of it, in thousandths: more of them, and a larger share of
/// the `most` that a topic of the agent has, make it more.
fn about(count: i64, most: i64) -> Weight {
    let known = RARE * 1_000 * count / (1_000 * count + HALF_ABOUT).max(1);
    let share = RARE * count.min(most) / most.max(1);
    known * (BY_THE_WAY + (RARE - BY_THE_WAY) * share / RARE) / RARE
}

/// How many agents have a word, in thousandths.
fn having(postings: &[Posting]) -> i64 {
    i64::try_from(postings.len()).unwrap_or(i64::MAX / 1_000) * 1_000
}

/// The texts of an agent that are searched, the heaviest first. Text about things that it does not do is left out.
fn texts(doc: &AgentDoc) -> Vec<(Part, Weight, String)> {
    let (description, examples) = without_examples(&doc.description);
    let commands = doc.commands.iter().map(|command| command.trim());
    let commands: Vec<&str> = commands
        .filter(|command| !command.eq_ignore_ascii_case(PLAIN_COMMAND))
        .collect();
    let areas = doc.focus_areas.iter();
    let names: Vec<&str> = areas.clone().map(|area| area.name.as_str()).collect();
    let keywords: Vec<&str> = areas
        .flat_map(|area| &area.keywords)
        .map(String::as_str)
        .collect();
    let mut sections = if doc.has_sections() {
        let lists = [&doc.key_actions, &doc.outputs, &doc.will];
        let mut texts: Vec<&str> = lists.into_iter().flatten().map(String::as_str).collect();
        texts.extend(doc.mindset.as_deref());
        texts.push(&doc.other);
        texts.join(" ")
    } else {
        doc.body.clone()
    };
    sections.push(' ');
    sections.push_str(&examples);
    vec![
        (Part::Triggers, 2_500, doc.triggers.join(" ")),
        (Part::Name, 1_000, doc.name.clone()),
        (Part::Triggers, 1_000, commands.join(" ")),
        (Part::Description, 700, description),
        (Part::Category, 700, doc.category.clone().unwrap_or_default()),
        (Part::Focus, 700, names.join(" ")),
        (Part::Focus, 500, keywords.join(" ")),
        (Part::Sections, 200, sections),
    ]
}

/// A description without its `<example>`s, and the examples: other people's messages, which say less.
fn without_examples(description: &str) -> (String, String) {
    let (mut text, mut examples) = (String::new(), String::new());
    let mut rest = description;
    while let Some((before, after)) = rest.split_once("<example>") {
        text.push_str(before);
        text.push(' ');
        let (example, after) = after.split_once("</example>").unwrap_or((after, ""));
        examples.push_str(example);
        examples.push(' ');
        rest = after;
    }
    text.push_str(rest);
    (text, examples)
}
