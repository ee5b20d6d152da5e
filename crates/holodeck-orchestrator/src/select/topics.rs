//! Topics: words that stand for the same subject, so that "segfault" is about errors although no agent says so. Knows no
//! agent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::LazyLock,
};

use super::terms::{self, RARE, Weight};

/// The number of a topic.
pub(super) type Topic = usize;

/// A related word says a little less than a core word, in thousandths.
const RELATED: Weight = 850;
/// The most that the words of a phrase say together, in thousandths.
const PHRASE: Weight = 1_800;
/// Another topic that has a word in its phrases makes it less telling, in thousandths of one that lists the word.
const IN_PHRASES: u64 = 300;

/// Words that no phrase needs: any task may have them, and they change nothing.
const POLITE: [&str; 8] = ["a", "an", "the", "please", "thank", "thanks", "hello", "hi"];

static TOPICS: LazyLock<Topics> = LazyLock::new(|| Topics::read(include_str!("words/topics.txt")));

/// The topics that the product knows.
pub(super) fn topics() -> &'static Topics {
    &TOPICS
}

/// Topics by their words.
#[derive(Debug, Default)]
pub(super) struct Topics {
    count: usize,
    phrases: Vec<TopicPhrase>,
    /// The phrases by the one of their stems that the fewest phrases have.
    by_stem: HashMap<String, Vec<usize>>,
    /// How much each term says about one topic and no other, in thousandths.
    telling: HashMap<String, Weight>,
}

/// Words that belong to a topic if a text has all of them.
#[derive(Debug)]
struct TopicPhrase {
    topic: Topic,
    is_core: bool,
    /// Whether it is one word.
    is_word: bool,
    /// All its words, also those that say nothing alone.
    stems: BTreeSet<String>,
    terms: BTreeSet<String>,
}

/// A term of a task that is about a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct About {
    pub(super) term: String,
    pub(super) topic: Topic,
    /// How much it says about the topic.
    pub(super) weight: Weight,
}

impl Topics {
    /// The topics of a text with one `NAME: core words | related words` a line.
    fn read(text: &str) -> Self {
        let mut topics = Self::default();
        let mut known: HashSet<(Topic, BTreeSet<String>)> = HashSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((_, words)) = line.split_once(": ") else {
                continue;
            };
            let (core, related) = words.split_once(" | ").unwrap_or((words, ""));
            for (list, is_core) in [(core, true), (related, false)] {
                for phrase in list.split(',') {
                    let (mut stems, terms) = (terms::stems(phrase), terms::terms(phrase));
                    let is_word = stems.len() == 1;
                    stems.retain(|stem| !POLITE.contains(&stem.as_str()));
                    if terms.is_empty() || !known.insert((topics.count, stems.clone())) {
                        continue;
                    }
                    topics.phrases.push(TopicPhrase {
                        topic: topics.count,
                        is_core,
                        is_word,
                        stems,
                        terms,
                    });
                }
            }
            topics.count += 1;
        }
        topics.prepare();
        topics
    }

    fn prepare(&mut self) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut listing: HashMap<&str, (BTreeSet<Topic>, BTreeSet<Topic>)> = HashMap::new();
        for phrase in &self.phrases {
            for stem in &phrase.stems {
                *counts.entry(stem).or_default() += 1;
            }
            for term in &phrase.terms {
                let (as_word, in_phrases) = listing.entry(term).or_default();
                let topics = if phrase.is_word { as_word } else { in_phrases };
                topics.insert(phrase.topic);
            }
        }
        let mut by_stem: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, phrase) in self.phrases.iter().enumerate() {
            let stems = phrase.stems.iter();
            let rarest = stems.min_by_key(|stem| counts.get(stem.as_str()).copied().unwrap_or_default());
            if let Some(rarest) = rarest {
                by_stem.entry(rarest.clone()).or_default().push(number);
            }
        }
        let telling = listing.iter().map(|(term, (as_word, in_phrases))| {
            let others = in_phrases.difference(as_word).count();
            (String::from(*term), telling(as_word.len(), others))
        });
        self.telling = telling.collect();
        self.by_stem = by_stem;
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether a term belongs to a topic.
    pub(super) fn knows(&self, term: &str) -> bool {
        self.telling.contains_key(term)
    }

    /// The phrases of which these stems have every one.
    fn complete<'a>(&'a self, stems: &'a BTreeSet<String>) -> impl Iterator<Item = &'a TopicPhrase> {
        let numbers = stems.iter().filter_map(|stem| self.by_stem.get(stem)).flatten();
        let phrases = numbers.filter_map(|number| self.phrases.get(*number));
        phrases.filter(|phrase| phrase.stems.is_subset(stems))
    }

    /// The topics of an agent: those with a core word in `all` of its stems, each with the number of these words; one that
    /// is in its `name` counts twice.
    pub(super) fn of_agent(&self, all: &BTreeSet<String>, name: &BTreeSet<String>) -> BTreeMap<Topic, i64> {
        let mut found: BTreeMap<Topic, i64> = BTreeMap::new();
        for phrase in self.complete(all).filter(|phrase| phrase.is_core) {
            *found.entry(phrase.topic).or_default() += 1 + i64::from(phrase.terms.is_subset(name));
        }
        found
    }

    /// The terms of a task, by all its stems, that are about topics, in order.
    pub(super) fn of_task(&self, stems: &BTreeSet<String>) -> Vec<About> {
        let mut found = BTreeSet::new();
        for phrase in self.complete(stems) {
            let kind = if phrase.is_core { RARE } else { RELATED };
            let count = i64::try_from(phrase.terms.len()).unwrap_or(i64::MAX);
            for term in &phrase.terms {
                let says = if phrase.is_word {
                    terms::weight(term) * self.telling.get(term).copied().unwrap_or(RARE) / RARE
                } else {
                    terms::weight(term).min(PHRASE / count)
                };
                found.insert(About {
                    term: term.clone(),
                    topic: phrase.topic,
                    weight: kind * says / RARE,
                });
            }
        }
        found.into_iter().collect()
    }
}

/// How much a word says about one topic and no other, in thousandths: one by the root of the number of topics that list it, and of others
/// that have it in phrases.
fn telling(as_word: usize, in_phrases: usize) -> Weight {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let topics = count(as_word)
        .saturating_mul(1_000)
        .saturating_add(count(in_phrases).saturating_mul(IN_PHRASES));
    let root = (topics.max(1_000) * 1_000).isqrt();
    Weight::try_from(1_000_000 / root.max(1)).unwrap_or(RARE)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_topic_has_core_words_and_no_word_is_listed_twice() {
        let text = include_str!("words/topics.txt");
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(lines.clone().count(), topics().count());
        for line in lines {
            let (name, words) = line.split_once(": ").unwrap();
            let (core, _) = words.split_once(" | ").unwrap();
            assert!(!core.trim().is_empty(), "{name}");
            let mut seen = HashSet::new();
            for word in words.split([',', '|']) {
                assert!(seen.insert(word.trim()), "{name}: {word}");
            }
        }
    }

    #[test]
    fn a_task_is_about_a_topic_by_a_word_or_by_all_words_of_a_phrase() {
        let topics = Topics::read("one: alpha | beta gamma\ntwo: delta | beta");
        let about = |text: &str| -> Vec<(String, Topic)> {
            let about = topics.of_task(&terms::stems(text)).into_iter();
            about.map(|about| (about.term, about.topic)).collect()
        };
        assert_eq!(about("alpha"), [("alpha".to_owned(), 0)]);
        assert_eq!(about("beta"), [("beta".to_owned(), 1)]);
        assert_eq!(about("gamma"), []);
        assert_eq!(about("gamma, beta").len(), 3);
        // Related words make no agent one of the topic.
        let stems = terms::stems("beta gamma");
        assert!(topics.of_agent(&stems, &BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_phrase_needs_its_words_that_say_nothing_alone() {
        let topics = Topics::read("one: alpha | write back");
        assert!(topics.of_task(&terms::stems("write")).is_empty());
        assert_eq!(topics.of_task(&terms::stems("back to write")).len(), 2);
        let topics = Topics::read("one: alpha | the beta");
        assert_eq!(topics.of_task(&terms::stems("beta")).len(), 1);
        let topics = Topics::read("one: alpha | how many");
        assert!(topics.of_task(&terms::stems("how many")).is_empty());
    }

    #[test]
    fn a_word_of_many_topics_says_less_about_each() {
        let topics = Topics::read("one: alpha | beta\ntwo: delta | beta\nthree: gamma | beta epsilon");
        let weight = |text: &str| topics.of_task(&terms::stems(text)).first().unwrap().weight;
        assert!(weight("beta") < weight("delta"));
        assert_eq!(weight("delta"), RARE);
    }
}
