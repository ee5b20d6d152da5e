//! chrF and chrF++ as sacrebleu computes them: character n-grams of the orders 1 to 6, beta 2.

use super::ngrams::{self, Overlap, Vocabulary};
use super::python;

/// Whether word n-grams are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WordOrder {
    /// chrF: characters only.
    #[default]
    None,
    /// chrF++: characters, words and pairs of words.
    Two,
}

/// chrF of `prediction` against `reference`.
pub fn chrf(prediction: &str, reference: &str, words: WordOrder) -> f64 {
    let characters = character_overlaps(prediction, reference);
    match words {
        WordOrder::None => score(&characters),
        WordOrder::Two => {
            let mut all = characters.to_vec();
            all.extend(word_overlaps(prediction, reference));
            score(&all)
        }
    }
}

fn character_overlaps(prediction: &str, reference: &str) -> [Overlap; 6] {
    let symbols = |text: &str| -> Vec<u32> { characters(text).map(u32::from).collect() };
    ngrams::overlaps(&symbols(prediction), &symbols(reference))
}

fn characters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|&c| !python::is_space(c))
}

fn score(orders: &[Overlap]) -> f64 {
    let (mut precision, mut recall, mut effective) = (0.0, 0.0, 0.0);
    for order in orders
        .iter()
        .filter(|order| order.prediction > 0 && order.reference > 0)
    {
        precision += order.shared as f64 / order.prediction as f64;
        recall += order.shared as f64 / order.reference as f64;
        effective += 1.0;
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (precision / effective, recall / effective);
    (5.0 * precision * recall / (4.0 * precision + recall)).clamp(0.0, 1.0)
}

fn word_overlaps(prediction: &str, reference: &str) -> [Overlap; 2] {
    let mut vocabulary = Vocabulary::new();
    let mut theirs = Vec::with_capacity(32);
    words(reference, |word| theirs.push(vocabulary.insert(word.as_bytes())));
    let mut ours = Vec::with_capacity(32);
    words(prediction, |word| ours.push(vocabulary.get(word.as_bytes())));
    ngrams::overlaps(&ours, &theirs)
}

/// White-space words with one punctuation character detached: the last, or else the first.
fn words<'t>(text: &'t str, mut emit: impl FnMut(&'t str)) {
    for word in python::split(text) {
        let mut chars = word.chars();
        let (first, last) = (chars.next(), chars.next_back());
        match (first, last) {
            (Some(_), Some(last)) if last.is_ascii_punctuation() => {
                let (head, tail) = word.split_at(word.len() - 1);
                emit(head);
                emit(tail);
            }
            (Some(first), Some(_)) if first.is_ascii_punctuation() => {
                let (head, tail) = word.split_at(1);
                emit(head);
                emit(tail);
            }
            _ => emit(word),
        }
    }
}
