//! Counts the n-grams that two sequences of words or characters share.
//!
//! Words are first replaced by small numbers; an n-gram is then the pair of the number of its first n−1 symbols and its
//! last symbol, so each order costs one look-up per position. The maps are seeded by the process, so that no text can be
//! made whose words all collide.

use std::collections::HashMap;

use foldhash::quality::RandomState;

/// The number of a symbol that does not occur in the reference.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Numbers words, starting at 0, in the order of their first occurrence.
#[derive(Default)]
pub(crate) struct Vocabulary<'t> {
    numbers: HashMap<&'t [u8], u32, RandomState>,
}

impl<'t> Vocabulary<'t> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The number of `word`, a new one if it is new.
    pub(crate) fn insert(&mut self, word: &'t [u8]) -> u32 {
        let next = symbol(self.numbers.len());
        *self.numbers.entry(word).or_insert(next)
    }

    /// The number of `word`, [`UNKNOWN`] if it has none.
    pub(crate) fn get(&self, word: &[u8]) -> u32 {
        self.numbers.get(word).copied().unwrap_or(UNKNOWN)
    }
}

/// Converts a position or count to a symbol. Texts of more than four billion symbols do not fit into memory.
pub(crate) fn symbol(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(UNKNOWN)
}

/// The number of n-grams of one order in prediction and reference, and the number they share (each counted at most as
/// often as it occurs in the other text).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) shared: usize,
    pub(crate) prediction: usize,
    pub(crate) reference: usize,
}

/// The overlap of single words.
pub(crate) fn shared_words<'t>(
    prediction: impl Iterator<Item = &'t str>,
    reference: impl Iterator<Item = &'t str>,
) -> Overlap {
    let mut result = Overlap::default();
    let mut left: HashMap<&str, usize, RandomState> = HashMap::default();
    for word in reference {
        result.reference += 1;
        *left.entry(word).or_default() += 1;
    }
    for word in prediction {
        result.prediction += 1;
        if let Some(left) = left.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            result.shared += 1;
        }
    }
    result
}

/// An n-gram of the reference.
struct Gram {
    number: u32,
    /// How often it can still be shared.
    left: usize,
}

/// The overlap for the orders 1 to `N`. Symbols of the reference are never [`UNKNOWN`].
pub(crate) fn overlaps<const N: usize>(prediction: &[u32], reference: &[u32]) -> [Overlap; N] {
    let mut result = [Overlap::default(); N];
    // The number of the n-gram before each position; there is one of order 0.
    let (mut ours, mut theirs) = (vec![0; prediction.len()], vec![0; reference.len()]);
    let mut grams: HashMap<(u32, u32), Gram, RandomState> =
        HashMap::with_capacity_and_hasher(reference.len(), RandomState::default());
    for (last, overlap) in result.iter_mut().enumerate() {
        overlap.prediction = prediction.len().saturating_sub(last);
        overlap.reference = reference.len().saturating_sub(last);
        grams.clear();
        for (prefix, &symbol) in theirs.iter_mut().zip(reference.iter().skip(last)) {
            let number = self::symbol(grams.len());
            let gram = grams.entry((*prefix, symbol)).or_insert(Gram { number, left: 0 });
            gram.left += 1;
            *prefix = gram.number;
        }
        for (prefix, &symbol) in ours.iter_mut().zip(prediction.iter().skip(last)) {
            *prefix = match grams.get_mut(&(*prefix, symbol)) {
                Some(gram) => {
                    overlap.shared += usize::from(gram.left > 0);
                    gram.left = gram.left.saturating_sub(1);
                    gram.number
                }
                None => UNKNOWN,
            };
        }
    }
    result
}
