//! ROUGE-1, -2, -L and -Lsum as the `rouge_score` package computes them.

use super::ngrams::{self, Overlap, Vocabulary};
use super::{Tokenizer, lcs, porter, unicode};

/// The variant of ROUGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RougeVariant {
    /// Shared words.
    Rouge1,
    /// Shared pairs of words.
    Rouge2,
    /// Longest common subsequence of the whole texts.
    #[default]
    RougeL,
    /// Union of the longest common subsequences, for each line of the reference.
    RougeLsum,
}

/// Whether words are reduced to their Porter stem first (those longer than three characters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stemming {
    /// Words as they are.
    #[default]
    Off,
    /// Porter stems.
    Porter,
}

/// Precision, recall and their harmonic mean, which is the score.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Rouge {
    /// Share of the prediction that the reference has.
    pub precision: f64,
    /// Share of the reference that the prediction has.
    pub recall: f64,
    /// Harmonic mean of the two.
    pub f1: f64,
}

/// ROUGE of `prediction` against `reference`.
pub fn rouge(
    prediction: &str,
    reference: &str,
    variant: RougeVariant,
    tokenizer: Tokenizer,
    stemming: Stemming,
) -> Rouge {
    let prepare = |text| {
        let lower = lower_case(text, tokenizer);
        match stemming {
            Stemming::Off => lower,
            Stemming::Porter => stem_words(&lower, tokenizer),
        }
    };
    let (prediction, reference) = (prepare(prediction), prepare(reference));
    if variant == RougeVariant::RougeLsum {
        return lsum(&prediction, &reference, tokenizer);
    }
    let mut vocabulary = Vocabulary::new();
    let theirs = symbols(&reference, tokenizer, |word| vocabulary.insert(word));
    let ours = symbols(&prediction, tokenizer, |word| vocabulary.get(word));
    let overlap = match variant {
        RougeVariant::Rouge1 => ngrams::overlaps::<1>(&ours, &theirs)[0],
        RougeVariant::Rouge2 => ngrams::overlaps::<2>(&ours, &theirs)[1],
        RougeVariant::RougeL | RougeVariant::RougeLsum => Overlap {
            shared: lcs::length(&theirs, &ours, vocabulary.len()),
            prediction: ours.len(),
            reference: theirs.len(),
        },
    };
    score(overlap)
}

fn score(overlap: Overlap) -> Rouge {
    let share = |of: usize| {
        if of == 0 {
            0.0
        } else {
            overlap.shared as f64 / of as f64
        }
    };
    let (precision, recall) = (share(overlap.prediction), share(overlap.reference));
    let f1 = if overlap.shared == 0 {
        0.0
    } else {
        2.0 * precision * recall / (precision + recall)
    };
    Rouge {
        precision,
        recall,
        f1: f1.clamp(0.0, 1.0),
    }
}

/// For each line of the reference the union of its longest common subsequences with every line of the prediction; a
/// word counts at most as often as both texts have it.
fn lsum(prediction: &str, reference: &str, tokenizer: Tokenizer) -> Rouge {
    let mut vocabulary = Vocabulary::new();
    let theirs: Vec<Vec<u32>> = reference
        .split('\n')
        .map(|line| symbols(line, tokenizer, |word| vocabulary.insert(word)))
        .collect();
    let ours: Vec<Vec<u32>> = prediction
        .split('\n')
        .map(|line| symbols(line, tokenizer, |word| vocabulary.get(word)))
        .collect();
    let words = vocabulary.len();
    let mut left: Vec<(usize, usize)> = vec![(0, 0); words];
    for &symbol in theirs.iter().flatten() {
        if let Some((_, reference)) = left.get_mut(symbol as usize) {
            *reference += 1;
        }
    }
    for &symbol in ours.iter().flatten() {
        if let Some((prediction, _)) = left.get_mut(symbol as usize) {
            *prediction += 1;
        }
    }
    let mut shared = 0;
    for line in &theirs {
        let mut matched = vec![false; line.len()];
        for candidate in &ours {
            lcs::matched_rows(line, candidate, words, |row| {
                if let Some(row) = matched.get_mut(row) {
                    *row = true;
                }
            });
        }
        for (&symbol, _) in line.iter().zip(matched).filter(|&(_, matched)| matched) {
            if let Some((prediction, reference)) = left.get_mut(symbol as usize)
                && *prediction > 0
                && *reference > 0
            {
                *prediction -= 1;
                *reference -= 1;
                shared += 1;
            }
        }
    }
    score(Overlap {
        shared,
        prediction: ours.iter().map(Vec::len).sum(),
        reference: theirs.iter().map(Vec::len).sum(),
    })
}

fn lower_case(text: &str, tokenizer: Tokenizer) -> String {
    match tokenizer {
        Tokenizer::Reference if text.is_ascii() => text.to_ascii_lowercase(),
        Tokenizer::Reference => text.to_lowercase(),
        Tokenizer::Unicode => unicode::compose(&unicode::compose(text).to_lowercase()).into_owned(),
    }
}

/// Reduces each word of more than three characters to its stem.
fn stem_words(text: &str, tokenizer: Tokenizer) -> String {
    let mut stems = String::with_capacity(text.len() + 1);
    let mut scratch = Vec::new();
    for line in text.split('\n') {
        words(line, tokenizer, |word| {
            let word = std::str::from_utf8(word).unwrap_or_default();
            if word.len() > 3 && word.is_ascii() {
                porter::push_stem(word, &mut scratch, &mut stems);
            } else {
                stems.push_str(word);
            }
            stems.push(' ');
        });
        stems.push('\n');
    }
    stems
}

fn symbols<'t>(text: &'t str, tokenizer: Tokenizer, mut number: impl FnMut(&'t [u8]) -> u32) -> Vec<u32> {
    let mut symbols = Vec::with_capacity(text.len() / 4 + 1);
    words(text, tokenizer, |word| symbols.push(number(word)));
    symbols
}

/// The words of a lower-cased text.
fn words<'t>(text: &'t str, tokenizer: Tokenizer, mut emit: impl FnMut(&'t [u8])) {
    match tokenizer {
        Tokenizer::Reference => text
            .as_bytes()
            .split(|byte| !byte.is_ascii_lowercase() && !byte.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .for_each(emit),
        Tokenizer::Unicode => unicode::words(text, |word| emit(word.as_bytes())),
    }
}
