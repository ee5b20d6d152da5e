//! METEOR as NLTK computes it: exact words, Porter stems, WordNet synonyms; alpha 0.9, beta 3, gamma 0.5.
#![allow(
    clippy::indexing_slicing,
    reason = "positions of tokens and groups that this module created"
)]

use super::ngrams::{UNKNOWN, Vocabulary, symbol};
use super::wordnet::{self, Synset};
use super::{Tokenizer, porter, sentences, unicode, word_tokens};

const ALPHA: f64 = 0.9;
const BETA: i32 = 3;
const GAMMA: f64 = 0.5;

/// A METEOR score with the counts it was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Meteor {
    /// The score, 0 to 1; below 1 even for identical texts.
    pub score: f64,
    /// Matched words.
    pub matches: usize,
    /// Runs of matches that are adjacent in both texts.
    pub chunks: usize,
    /// Words of the prediction.
    pub prediction_len: usize,
    /// Words of the reference.
    pub reference_len: usize,
}

/// METEOR of `prediction` against `reference`.
pub fn meteor(prediction: &str, reference: &str, tokenizer: Tokenizer) -> Meteor {
    let (ours, theirs) = (
        Words::new(prediction, tokenizer),
        Words::new(reference, tokenizer),
    );
    let partners = align(&ours, &theirs);
    let matches = || (0..).zip(&partners).filter(|&(_, &partner)| partner != UNKNOWN);
    let mut meteor = Meteor {
        matches: matches().count(),
        prediction_len: ours.len(),
        reference_len: theirs.len(),
        ..Meteor::default()
    };
    if meteor.matches == 0 {
        return meteor;
    }
    // A match continues the chunk of the previous one if both of its words follow directly.
    let mut expected = None;
    for (our, &their) in matches() {
        meteor.chunks += usize::from(expected != Some((our, their)));
        expected = Some((our + 1, their + 1));
    }
    let count = meteor.matches as f64;
    let (precision, recall) = (count / ours.len() as f64, count / theirs.len() as f64);
    let mean = precision * recall / (ALPHA * precision + (1.0 - ALPHA) * recall);
    let penalty = GAMMA * (meteor.chunks as f64 / count).powi(BETA);
    meteor.score = ((1.0 - penalty) * mean).clamp(0.0, 1.0);
    meteor
}

/// Lower-case words, concatenated in one string.
#[derive(Default)]
struct Words {
    text: String,
    ends: Vec<usize>,
}

impl Words {
    fn new(text: &str, tokenizer: Tokenizer) -> Self {
        let mut words = Self {
            text: String::with_capacity(text.len() + 8),
            ends: Vec::with_capacity(text.len() / 4),
        };
        match tokenizer {
            Tokenizer::Reference => {
                for sentence in sentences::sentences(text) {
                    word_tokens::tokens(&text[sentence], |token| words.push_lower(token));
                }
            }
            Tokenizer::Unicode => unicode::tokens(&unicode::compose(text), |token| words.push_lower(token)),
        }
        words
    }

    fn push_lower(&mut self, token: &str) {
        if token.is_ascii() {
            self.text
                .extend(token.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
        } else {
            self.text.push_str(&token.to_lowercase());
        }
        self.ends.push(self.text.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[at]]
    }
}

/// Words without a partner: their positions and their texts in the current stage.
struct Unmatched {
    positions: Vec<u32>,
    words: Words,
}

/// For each word of the prediction (`ours`), the position of its partner in the reference (`theirs`) or [`UNKNOWN`].
fn align(ours: &Words, theirs: &Words) -> Vec<u32> {
    let mut partners = vec![UNKNOWN; ours.len()];
    let mut vocabulary = Vocabulary::new();
    let (our_rest, their_rest) = match_equal(&mut vocabulary, ours, theirs, |our, their| {
        partners[our] = symbol(their);
    });
    if our_rest.is_empty() || their_rest.is_empty() {
        return partners;
    }
    let (ours, theirs) = (
        Unmatched::stems(ours, our_rest),
        Unmatched::stems(theirs, their_rest),
    );
    let mut pair =
        |our: usize, their: usize| partners[ours.positions[our] as usize] = theirs.positions[their];
    let (our_rest, their_rest) = match_equal(&mut vocabulary, &ours.words, &theirs.words, &mut pair);
    if !our_rest.is_empty() && !their_rest.is_empty() {
        // NLTK looks up the stems instead of the words, so this is part of the metric.
        match_synonyms((&ours.words, &our_rest), (&theirs.words, &their_rest), pair);
    }
    partners
}

impl Unmatched {
    fn stems(words: &Words, positions: Vec<u32>) -> Self {
        let mut stems = Words {
            text: String::with_capacity(positions.len() * 8),
            ends: Vec::with_capacity(positions.len()),
        };
        let mut scratch = Vec::with_capacity(16);
        for &position in &positions {
            porter::push_stem(words.get(position as usize), &mut scratch, &mut stems.text);
            stems.ends.push(stems.text.len());
        }
        Self {
            positions,
            words: stems,
        }
    }
}

/// Pairs equal words, from the last word of the prediction to the first, each with the last unpaired equal word of the
/// reference; returns the indices of the unpaired words.
fn match_equal<'w>(
    vocabulary: &mut Vocabulary<'w>,
    ours: &Words,
    theirs: &'w Words,
    mut pair: impl FnMut(usize, usize),
) -> (Vec<u32>, Vec<u32>) {
    vocabulary.clear();
    // For each word its last index, and for each index the previous one with the same word.
    let mut last: Vec<u32> = Vec::with_capacity(theirs.len());
    let mut previous = Vec::with_capacity(theirs.len());
    for at in 0..theirs.len() {
        let word = vocabulary.insert(theirs.get(at).as_bytes()) as usize;
        if word == last.len() {
            last.push(UNKNOWN);
        }
        previous.push(std::mem::replace(&mut last[word], symbol(at)));
    }
    let mut our_rest = Vec::with_capacity(ours.len());
    let mut taken = vec![false; theirs.len()];
    for at in (0..ours.len()).rev() {
        let word = vocabulary.get(ours.get(at).as_bytes());
        match last.get_mut(word as usize) {
            Some(partner) if *partner != UNKNOWN => {
                let found = *partner as usize;
                pair(at, found);
                taken[found] = true;
                *partner = previous[found];
            }
            _ => our_rest.push(symbol(at)),
        }
    }
    our_rest.reverse();
    let their_rest = (0..symbol(theirs.len()))
        .filter(|&at| !taken[at as usize])
        .collect();
    (our_rest, their_rest)
}

/// Words of the reference in one synset; `end` decreases as they are paired.
struct Group {
    synset: Synset,
    start: usize,
    end: usize,
}

/// Pairs synonyms, from the last word of the prediction to the first, each with the last unpaired synonym of the
/// reference.
fn match_synonyms(
    (ours, our_rest): (&Words, &[u32]),
    (theirs, their_rest): (&Words, &[u32]),
    mut pair: impl FnMut(usize, usize),
) {
    let mut members: Vec<(Synset, u32)> = Vec::with_capacity(64);
    for &at in their_rest {
        wordnet::synsets_with_lemma(theirs.get(at as usize), |synset| members.push((synset, at)));
    }
    if members.is_empty() {
        return;
    }
    members.sort_unstable();
    let mut groups: Vec<Group> = Vec::new();
    for (at, &(synset, _)) in members.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if group.synset == synset => group.end = at + 1,
            _ => groups.push(Group {
                synset,
                start: at,
                end: at + 1,
            }),
        }
    }
    let mut taken = vec![false; theirs.len()];
    for &at in our_rest.iter().rev() {
        let mut partner = None;
        wordnet::synsets(ours.get(at as usize), |synset| {
            if let Ok(group) = groups.binary_search_by_key(&synset, |group| group.synset) {
                let group = &mut groups[group];
                while group.end > group.start && taken[members[group.end - 1].1 as usize] {
                    group.end -= 1;
                }
                if group.end > group.start {
                    partner = partner.max(Some(members[group.end - 1].1));
                }
            }
        });
        if let Some(found) = partner {
            taken[found as usize] = true;
            pair(at as usize, found as usize);
        }
    }
}
