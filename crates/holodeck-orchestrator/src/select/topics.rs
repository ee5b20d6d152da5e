//! Topics: words that stand for the same subject, so that "segfault" is about errors although no agent says so. Knows no
//! agent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::LazyLock,
};

use super::terms::{self, RARE, Weight};

/// The number of a topic.
pub(super) type Topic = usize;

/// A related word says a little less than a core word, in thousandths.
const RELATED: Weight = 950;
/// The words of a phrase say more together, in thousandths for the whole phrase.
const PHRASE: Weight = 1_400;
/// The one word of a phrase that says something, such as `phone` of "on my phone", says less than a word that is listed.
const REST_OF_PHRASE: Weight = 500;

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
    /// The phrases that have a term.
    by_term: HashMap<String, Vec<usize>>,
}

/// Terms that belong to a topic if a text has all of them.
#[derive(Debug)]
struct TopicPhrase {
    topic: Topic,
    is_core: bool,
    /// Whether it is listed as one word.
    is_word: bool,
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
        let mut known: HashMap<(Topic, BTreeSet<String>), usize> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((_, words)) = line.split_once(": ") else {
                continue;
            };
            let (core, related) = words.split_once(" | ").unwrap_or((words, ""));
            for (list, is_core) in [(core, true), (related, false)] {
                for phrase in list.split(',') {
                    let terms = terms::terms(phrase);
                    let is_word = terms::stems(phrase).len() == 1;
                    if terms.is_empty() {
                        continue;
                    }
                    let key = (topics.count, terms.clone());
                    if let Some(known) = known.get(&key).and_then(|known| topics.phrases.get_mut(*known)) {
                        known.is_word |= is_word;
                        continue;
                    }
                    known.insert(key, topics.phrases.len());
                    topics.add(TopicPhrase {
                        topic: topics.count,
                        is_core,
                        is_word,
                        terms,
                    });
                }
            }
            topics.count += 1;
        }
        topics
    }

    fn add(&mut self, phrase: TopicPhrase) {
        for term in &phrase.terms {
            let phrases = self.by_term.entry(term.clone()).or_default();
            phrases.push(self.phrases.len());
        }
        self.phrases.push(phrase);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether a term belongs to a topic.
    pub(super) fn knows(&self, term: &str) -> bool {
        self.by_term.contains_key(term)
    }

    /// The phrases of which these terms have every one.
    fn complete<'a>(&'a self, terms: &'a BTreeSet<String>) -> impl Iterator<Item = &'a TopicPhrase> {
        let mut found = BTreeSet::new();
        for term in terms {
            found.extend(self.by_term.get(term).into_iter().flatten().copied());
        }
        let phrases = found.into_iter().filter_map(|index| self.phrases.get(index));
        phrases.filter(|phrase| phrase.terms.is_subset(terms))
    }

    /// The topics of an agent: those with a core word in `all` of its terms, each with the number of these words; one that
    /// is in its `name` counts twice.
    pub(super) fn of_agent(&self, all: &BTreeSet<String>, name: &BTreeSet<String>) -> BTreeMap<Topic, usize> {
        let mut found: BTreeMap<Topic, usize> = BTreeMap::new();
        for phrase in self.complete(all).filter(|phrase| phrase.is_core) {
            *found.entry(phrase.topic).or_default() += 1 + usize::from(phrase.terms.is_subset(name));
        }
        found
    }

    /// The terms of a task that are about topics, in order.
    pub(super) fn of_task(&self, terms: &BTreeSet<String>) -> Vec<About> {
        let mut found = BTreeSet::new();
        for phrase in self.complete(terms) {
            let kind = if phrase.is_core { RARE } else { RELATED };
            let count = i64::try_from(phrase.terms.len()).unwrap_or(i64::MAX);
            for term in &phrase.terms {
                let says = match count {
                    1 if phrase.is_word => terms::weight(term),
                    1 => terms::weight(term) * REST_OF_PHRASE / RARE,
                    _ => PHRASE / count,
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
            let about = topics.of_task(&terms::terms(text)).into_iter();
            about.map(|about| (about.term, about.topic)).collect()
        };
        assert_eq!(about("alpha"), [("alpha".to_owned(), 0)]);
        assert_eq!(about("beta"), [("beta".to_owned(), 1)]);
        assert_eq!(about("gamma"), []);
        assert_eq!(about("gamma, beta").len(), 3);
        // Related words make no agent one of the topic.
        let terms = terms::terms("beta gamma");
        assert!(topics.of_agent(&terms, &BTreeSet::new()).is_empty());
    }
}
