//! Sentence BLEU as sacrebleu computes it: 13a tokens, orders 1 to 4, effective order, exponential smoothing.
#![allow(
    clippy::indexing_slicing,
    reason = "the class table has an entry for every byte"
)]

use std::borrow::Cow;

use super::Tokenizer;
use super::ngrams::{self, Overlap, Vocabulary};
use super::{python, unicode};

/// A BLEU score with the counts it was computed from.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Bleu {
    /// The score, 0 to 1.
    pub score: f64,
    /// Smoothed precision of the orders 1 to 4, 0 to 1.
    pub precisions: [f64; 4],
    /// Shared n-grams of the orders 1 to 4.
    pub counts: [usize; 4],
    /// n-grams of the prediction.
    pub totals: [usize; 4],
    /// Brevity penalty.
    pub brevity_penalty: f64,
    /// Tokens of the prediction.
    pub prediction_len: usize,
    /// Tokens of the reference.
    pub reference_len: usize,
}

/// Sentence BLEU of `prediction` against `reference`.
pub fn bleu(prediction: &str, reference: &str, tokenizer: Tokenizer) -> Bleu {
    let (prediction, reference) = match tokenizer {
        Tokenizer::Reference => (prepare(prediction), prepare(reference)),
        Tokenizer::Unicode => (unicode::compose(prediction), unicode::compose(reference)),
    };
    let mut vocabulary = Vocabulary::new();
    let mut theirs = Vec::with_capacity(32);
    let mut ours = Vec::with_capacity(32);
    match tokenizer {
        Tokenizer::Reference => {
            tokens_13a(&reference, |token| theirs.push(vocabulary.insert(token)));
            tokens_13a(&prediction, |token| ours.push(vocabulary.get(token)));
        }
        Tokenizer::Unicode => {
            unicode::tokens(&reference, |token| {
                theirs.push(vocabulary.insert(token.as_bytes()));
            });
            unicode::tokens(&prediction, |token| ours.push(vocabulary.get(token.as_bytes())));
        }
    }
    score(ngrams::overlaps(&ours, &theirs))
}

fn score(overlaps: [Overlap; 4]) -> Bleu {
    let counts = overlaps.map(|order| order.shared);
    let totals = overlaps.map(|order| order.prediction);
    let [words, ..] = overlaps;
    let (prediction_len, reference_len) = (words.prediction, words.reference);
    let brevity_penalty = match prediction_len {
        0 if reference_len > 0 => 0.0,
        len if len < reference_len => (1.0 - reference_len as f64 / len as f64).exp(),
        _ => 1.0,
    };
    let mut bleu = Bleu {
        score: 0.0,
        precisions: [0.0; 4],
        counts,
        totals,
        brevity_penalty,
        prediction_len,
        reference_len,
    };
    if counts == [0; 4] {
        return bleu;
    }
    let (mut log_sum, mut orders, mut smoothing) = (0.0, 0.0, 1.0);
    for ((precision, count), total) in bleu.precisions.iter_mut().zip(counts).zip(totals) {
        if total == 0 {
            break;
        }
        *precision = if count == 0 {
            smoothing *= 2.0;
            1.0 / (smoothing * total as f64)
        } else {
            count as f64 / total as f64
        };
        log_sum += precision.ln();
        orders += 1.0;
    }
    bleu.score = (brevity_penalty * (log_sum / orders).exp()).clamp(0.0, 1.0);
    bleu
}

/// Prepares a text as sacrebleu does: removes `<skipped>` and hyphens at line ends, and decodes four HTML entities.
fn prepare(text: &str) -> Cow<'_, str> {
    // A loop without an early exit is vectorised.
    let suspicious = |byte: u8| u8::from(matches!(byte, b'<' | b'&' | b'\n'));
    if text.bytes().fold(0, |found, byte| found | suspicious(byte)) == 0 {
        return Cow::Borrowed(text);
    }
    let text = text
        .trim_end_matches(python::is_space)
        .replace("<skipped>", "")
        .replace("-\n", "");
    if !text.contains('&') {
        return Cow::Owned(text);
    }
    Cow::Owned(
        text.replace("&quot;", "\"")
            .replace("&amp;", "&")
            .replace("&lt;", "<")
            .replace("&gt;", ">"),
    )
}

#[derive(Clone, Copy)]
enum Class {
    Word,
    Digit,
    Space,
    /// Always a separate token.
    Punctuation,
    DotOrComma,
    Dash,
    /// First byte of possible Unicode white space.
    MaybeSpace,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Word; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'\t'..=b'\r' | 0x1c..=b' ' => Class::Space,
            b'0'..=b'9' => Class::Digit,
            b'.' | b',' => Class::DotOrComma,
            b'-' => Class::Dash,
            b'\'' => Class::Word,
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => Class::Punctuation,
            _ => Class::Word,
        };
        byte += 1;
    }
    classes[0xc2] = Class::MaybeSpace;
    classes[0xe1] = Class::MaybeSpace;
    classes[0xe2] = Class::MaybeSpace;
    classes[0xe3] = Class::MaybeSpace;
    classes
};

/// Emits the 13a tokens of a prepared text. sacrebleu applies four regular expressions one after the other; this single
/// scan gives the same tokens.
fn tokens_13a<'t>(text: &'t str, mut emit: impl FnMut(&'t [u8])) {
    let bytes = text.as_bytes();
    let mut start = 0;
    // Whether the last byte was a dot or comma that the second expression detached from a non-digit before it.
    let mut detached = false;
    let mut at = 0;
    loop {
        let plain = bytes[at..].iter().take_while(|&&byte| is_plain(byte)).count();
        if plain > 0 {
            at += plain;
            detached = false;
        }
        let Some(&byte) = bytes.get(at) else { break };
        let was_detached = std::mem::take(&mut detached);
        let end = match CLASSES[usize::from(byte)] {
            Class::Word | Class::Digit => {
                at += 1;
                continue;
            }
            Class::Space => at,
            Class::Punctuation => at + 1,
            Class::Dash => {
                if !is_digit(at.checked_sub(1).and_then(|before| bytes.get(before))) {
                    at += 1;
                    continue;
                }
                at + 1
            }
            Class::DotOrComma => {
                detached = !was_detached && !is_digit(at.checked_sub(1).and_then(|before| bytes.get(before)));
                if !detached && is_digit(bytes.get(at + 1)) {
                    at += 1;
                    continue;
                }
                at + 1
            }
            Class::MaybeSpace => {
                let c = text
                    .get(at..)
                    .and_then(|rest| rest.chars().next())
                    .unwrap_or('\0');
                if !python::is_space(c) {
                    at += c.len_utf8();
                    continue;
                }
                if start < at {
                    emit(&bytes[start..at]);
                }
                at += c.len_utf8();
                start = at;
                continue;
            }
        };
        if start < at {
            emit(&bytes[start..at]);
        }
        if at < end {
            emit(&bytes[at..end]);
        }
        at += 1;
        start = at;
    }
    if start < bytes.len() {
        emit(&bytes[start..]);
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(CLASSES[usize::from(byte)], Class::Word | Class::Digit)
}

fn is_digit(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_digit)
}
