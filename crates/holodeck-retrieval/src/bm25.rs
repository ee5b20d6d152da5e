//! BM25: scores texts by the words of a query.

use std::collections::BTreeMap;

use crate::phrases::{fold, words};

/// Saturation: how quickly further occurrences of a word stop adding to the score.
const K1: f64 = 1.5;
/// How much the length of a text counts.
const B: f64 = 0.75;
/// Weight of a word in more than half of the texts, as a share of the average weight.
const EPSILON: f64 = 0.25;

/// The words of texts, to score the texts for a query.
#[derive(Debug)]
pub struct Bm25 {
    kind: Bm25Kind,
    /// Word count of each text.
    lengths: Vec<usize>,
    average_length: f64,
    words: BTreeMap<String, Word>,
}

/// The kind of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "each is another measure, which callers choose"
)]
pub enum Bm25Kind {
    /// Passages of an index: Okapi BM25 as Python's rank-bm25 computes it. A repeated query word counts twice.
    Passages,
    /// A handful of short texts. Words in most of them keep some weight, where Okapi's measure gives them none; the
    /// plain plural counts as the singular, and a repeated query word counts once.
    Few,
}

#[derive(Debug, Default)]
struct Word {
    worth: f64,
    /// The texts that contain the word, and how often.
    places: Vec<(usize, usize)>,
}

impl Bm25 {
    /// Indexes texts, which are identified by position.
    pub fn new<T: AsRef<str>>(kind: Bm25Kind, texts: impl IntoIterator<Item = T>) -> Self {
        let mut index = Self {
            kind,
            lengths: Vec::new(),
            average_length: 0.0,
            words: BTreeMap::new(),
        };
        for (at, text) in texts.into_iter().enumerate() {
            index.count(at, &fold(text.as_ref()));
        }
        index.average_length = index.lengths.iter().sum::<usize>() as f64 / index.lengths.len().max(1) as f64;
        index.weigh();
        index
    }

    fn count(&mut self, at: usize, folded: &str) {
        let mut length = 0;
        for word in words(folded) {
            let word = self.kind.counted(word);
            length += 1;
            let places = &mut match self.words.get_mut(word) {
                Some(word) => word,
                None => self.words.entry(word.to_owned()).or_default(),
            }
            .places;
            match places.last_mut() {
                Some((last, count)) if *last == at => *count += 1,
                _ => places.push((at, 1)),
            }
        }
        self.lengths.push(length);
    }

    fn weigh(&mut self) {
        let texts = self.lengths.len() as f64;
        if self.kind == Bm25Kind::Few {
            for word in self.words.values_mut() {
                let with = word.places.len() as f64;
                word.worth = (1.0 + (texts - with + 0.5) / (with + 0.5)).ln();
            }
            return;
        }
        for word in self.words.values_mut() {
            let with = word.places.len() as f64;
            word.worth = (texts - with + 0.5).ln() - (with + 0.5).ln();
        }
        let sum: f64 = self.words.values().map(|word| word.worth).sum();
        let least = EPSILON * sum / self.words.len().max(1) as f64;
        for word in self.words.values_mut().filter(|word| word.worth < 0.0) {
            word.worth = least;
        }
    }

    /// The positions and scores of the texts that contain a word of the query.
    pub fn scores(&self, query: &str) -> BTreeMap<usize, f64> {
        let query = fold(query);
        let mut asked: Vec<&str> = words(&query).map(|word| self.kind.counted(word)).collect();
        if self.kind == Bm25Kind::Few {
            asked.sort_unstable();
            asked.dedup();
        }
        let mut scores = BTreeMap::new();
        for word in asked.into_iter().filter_map(|word| self.words.get(word)) {
            for (at, count) in &word.places {
                let length = self.lengths.get(*at).copied().unwrap_or_default() as f64;
                let count = *count as f64;
                let part = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / self.average_length));
                *scores.entry(*at).or_insert(0.0) += word.worth * part;
            }
        }
        scores
    }
}

impl Bm25Kind {
    /// The form of a word that is counted.
    fn counted(self, word: &str) -> &str {
        match word.strip_suffix('s') {
            Some(singular) if self == Self::Few && singular.len() > 2 && !singular.ends_with('s') => singular,
            _ => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_handful_of_texts_rare_words_weigh_more_and_common_ones_something() {
        let texts = [
            "find orders of a customer",
            "refund a customer",
            "the weather of a city",
        ];
        let index = Bm25::new(Bm25Kind::Few, texts);
        let scores = index.scores("refund the customers");
        assert!(scores[&1] > scores[&0] && scores[&0] > 0.0, "{scores:?}");
        assert!(index.scores("a")[&2] > 0.0);
        assert!(index.scores("xyzzy").is_empty());
        assert_eq!(index.scores("refund refunds"), index.scores("refund"));
        assert!(Bm25::new(Bm25Kind::Few, [""; 0]).scores("a").is_empty());
    }
}
