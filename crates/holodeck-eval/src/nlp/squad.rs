//! F1 and exact match of the SQuAD v1.1 script.

use super::ngrams::{self, Overlap};
use super::{Tokenizer, python, unicode};

/// Word F1: lower case, without punctuation and the articles a, an, the.
pub fn squad_f1(prediction: &str, reference: &str, tokenizer: Tokenizer) -> f64 {
    let (prediction, reference) = (
        NormalizedText::new(prediction, tokenizer),
        NormalizedText::new(reference, tokenizer),
    );
    f1(ngrams::shared_words(prediction.words(), reference.words()))
}

fn f1(overlap: Overlap) -> f64 {
    if overlap.shared == 0 {
        return 0.0;
    }
    let shared = overlap.shared as f64;
    let (precision, recall) = (
        shared / overlap.prediction as f64,
        shared / overlap.reference as f64,
    );
    (2.0 * precision * recall / (precision + recall)).clamp(0.0, 1.0)
}

/// Whether the two texts have the same words in the same order after the normalisation of [`squad_f1`].
pub fn squad_exact_match(prediction: &str, reference: &str, tokenizer: Tokenizer) -> bool {
    let (prediction, reference) = (
        NormalizedText::new(prediction, tokenizer),
        NormalizedText::new(reference, tokenizer),
    );
    prediction.words().eq(reference.words())
}

struct NormalizedText(String);

impl NormalizedText {
    fn new(text: &str, tokenizer: Tokenizer) -> Self {
        if tokenizer == Tokenizer::Reference && text.is_ascii() {
            return Self(normalize_ascii(text));
        }
        let text: String = match tokenizer {
            Tokenizer::Reference => python::strip_punctuation(&text.to_lowercase()),
            Tokenizer::Unicode => unicode::compose(&unicode::compose(text).to_lowercase())
                .chars()
                .filter_map(word_or_space)
                .collect(),
        };
        let mut normalized = String::with_capacity(text.len());
        match tokenizer {
            Tokenizer::Reference => {
                // An article between any two non-word characters is removed, not only one between spaces.
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let (word, after) =
                        rest.split_at(rest.find(|c| !python::is_word(c)).unwrap_or(rest.len()));
                    normalized.push_str(if is_article(word.as_bytes()) { " " } else { word });
                    let (gap, after) = after.split_at(after.find(python::is_word).unwrap_or(after.len()));
                    normalized.push_str(gap);
                    rest = after;
                }
            }
            Tokenizer::Unicode => unicode::tokens(&text, |word| {
                if !is_article(word.as_bytes()) {
                    normalized.push_str(word);
                    normalized.push(' ');
                }
            }),
        }
        Self(normalized)
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        python::split(&self.0)
    }
}

/// Normalises ASCII text in one pass.
fn normalize_ascii(text: &str) -> String {
    let mut normalized = Vec::with_capacity(text.len() + 1);
    let mut start = 0;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            normalized.push(byte.to_ascii_lowercase());
        } else if !byte.is_ascii_punctuation() {
            drop_article(&mut normalized, start);
            normalized.push(byte);
            start = normalized.len();
        }
    }
    drop_article(&mut normalized, start);
    String::from_utf8(normalized).unwrap_or_default()
}

/// Replaces the word at the end with a space if it is an article.
fn drop_article(text: &mut Vec<u8>, start: usize) {
    if text.get(start..).is_some_and(is_article) {
        text.truncate(start);
        text.push(b' ');
    }
}

fn is_article(word: &[u8]) -> bool {
    matches!(word, b"a" | b"an" | b"the")
}

/// Returns word characters unchanged and a space for white space; removes punctuation and symbols.
fn word_or_space(c: char) -> Option<char> {
    if python::is_space(c) {
        return Some(' ');
    }
    unicode::is_word_part(c).then_some(c)
}
