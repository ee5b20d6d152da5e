use std::collections::{BTreeMap, HashMap};

const K1: f64 = 1.5;
const B: f64 = 0.75;

/// Words in a handful of short texts, for ranking the texts by a question.
#[derive(Debug)]
pub(crate) struct Bm25 {
    texts: Vec<BTreeMap<String, f64>>,
    lengths: Vec<f64>,
    average: f64,
    /// In how many texts a word is.
    holders: HashMap<String, f64>,
}

impl Bm25 {
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut index = Self {
            texts: Vec::new(),
            lengths: Vec::new(),
            average: 0.0,
            holders: HashMap::new(),
        };
        for text in texts {
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            let mut length = 0.0;
            for word in words(text) {
                *counts.entry(word).or_default() += 1.0;
                length += 1.0;
            }
            for word in counts.keys() {
                *index.holders.entry(word.clone()).or_default() += 1.0;
            }
            index.texts.push(counts);
            index.lengths.push(length);
        }
        let total: f64 = index.lengths.iter().sum();
        index.average = total / count(index.lengths.len()).max(1.0);
        index
    }

    /// The score of each text, none below 0.
    pub(crate) fn scores(&self, question: &str) -> Vec<f64> {
        let mut asked: Vec<String> = words(question).collect();
        asked.sort();
        asked.dedup();
        self.texts
            .iter()
            .zip(&self.lengths)
            .map(|(counts, length)| asked.iter().map(|word| self.score(word, counts, *length)).sum())
            .collect()
    }

    fn score(&self, word: &str, counts: &BTreeMap<String, f64>, length: f64) -> f64 {
        let Some(times) = counts.get(word) else { return 0.0 };
        let holders = self.holders.get(word).copied().unwrap_or_default();
        let rarity = (1.0 + (count(self.texts.len()) - holders + 0.5) / (holders + 0.5)).ln();
        let norm = K1 * (1.0 - B + B * length / self.average.max(1.0));
        rarity * times * (K1 + 1.0) / (times + norm)
    }
}

/// Words in lower case, the plain plural without its `s`.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            let word = word.to_lowercase();
            match word.strip_suffix('s') {
                Some(singular) if singular.len() > 2 && !singular.ends_with('s') => singular.to_owned(),
                _ => word,
            }
        })
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_weigh_more_and_absent_ones_nothing() {
        let index = Bm25::new(
            [
                "find orders of a customer",
                "refund a customer",
                "the weather of a city",
            ]
            .into_iter(),
        );
        let scores = index.scores("refund the customers");
        assert!(scores[1] > scores[0] && scores[0] > 0.0, "{scores:?}");
        assert_eq!(index.scores("xyzzy"), [0.0; 3]);
        assert_eq!(Bm25::new(std::iter::empty()).scores("a"), Vec::<f64>::new());
    }
}
