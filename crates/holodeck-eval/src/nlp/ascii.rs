//! Words and pairs of words that two ASCII texts share. Each text is read once, and its buffers are used again by the
//! next pair of texts, because most answers are short: allocating would take longer than comparing.
#![allow(
    clippy::indexing_slicing,
    reason = "tables with an entry for each byte, and ranges of words in their own buffer"
)]

use std::cell::RefCell;

use super::ngrams::{Overlap, PairTable, UNKNOWN, hash, position, seed, symbol};

/// The byte ends a word.
const SPLIT: u8 = 0;
/// The byte is dropped.
const SKIP: u8 = 1;
/// The rules below do not cover the byte.
const OTHER: u8 = 2;

/// What each byte means: a byte of a word, in lower case, or one of the constants above.
pub(super) struct Bytes([u8; 256]);

/// Words of letters and digits; everything else separates them.
pub(super) static LETTERS_AND_DIGITS: Bytes = Bytes::new(SPLIT, SPLIT);
/// Words between white space, without punctuation.
pub(super) static WITHOUT_PUNCTUATION: Bytes = Bytes::new(SKIP, OTHER);

impl Bytes {
    const fn new(punctuation: u8, control: u8) -> Self {
        let mut bytes = [OTHER; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            bytes[byte as usize] = if byte.is_ascii_alphanumeric() {
                byte.to_ascii_lowercase()
            } else if byte.is_ascii_punctuation() {
                punctuation
            } else if matches!(byte, b'\t'..=b'\r' | 0x1c..=b' ') {
                SPLIT
            } else {
                control
            };
            byte += 1;
        }
        Self(bytes)
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Words,
    Pairs,
}

#[derive(Default)]
struct Buffers {
    theirs: Vec<u8>,
    ours: Vec<u8>,
    /// The number of a word of the reference, by its hash.
    slots: Vec<u32>,
    words: Vec<Word>,
    /// The numbers of the reference's words in their order.
    numbers: Vec<u32>,
    pairs: PairTable,
}

/// A word of the reference.
struct Word {
    start: usize,
    end: usize,
    /// How often it can still be shared.
    left: u32,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// The overlap of two texts; `None` if a byte is not covered by the rules. Words that `is_dropped` do not count.
pub(super) fn overlap(
    prediction: &str,
    reference: &str,
    bytes: &Bytes,
    unit: Unit,
    is_dropped: fn(&[u8]) -> bool,
) -> Option<Overlap> {
    BUFFERS.with_borrow_mut(|buffers| buffers.overlap(prediction, reference, bytes, unit, is_dropped))
}

impl Buffers {
    fn overlap(
        &mut self,
        prediction: &str,
        reference: &str,
        bytes: &Bytes,
        unit: Unit,
        is_dropped: fn(&[u8]) -> bool,
    ) -> Option<Overlap> {
        self.words.clear();
        self.numbers.clear();
        self.slots.clear();
        // At most every second byte begins a word, and at most half of the slots are used.
        let slots = (reference.len() + 2).next_power_of_two();
        self.slots.resize(slots, UNKNOWN);
        let seed = seed();
        let (words, numbers, slots) = (&mut self.words, &mut self.numbers, &mut self.slots);
        read(
            reference,
            bytes,
            is_dropped,
            &mut self.theirs,
            |text, start, end| {
                let word = &text[start..end];
                let number = match find(slots, words, text, word, seed) {
                    Ok(number) => {
                        words[position(u64::from(number))].left += 1;
                        number
                    }
                    Err(slot) => {
                        let number = symbol(words.len());
                        slots[slot] = number;
                        words.push(Word { start, end, left: 1 });
                        number
                    }
                };
                numbers.push(number);
            },
        )?;
        if unit == Unit::Pairs {
            self.pairs.reset(numbers.len());
            for pair in numbers.windows(2) {
                self.pairs.add(pair[0], pair[1]);
            }
        }
        let (theirs, pairs) = (&self.theirs, &mut self.pairs);
        let (mut count, mut shared, mut before) = (0_usize, 0, UNKNOWN);
        read(
            prediction,
            bytes,
            is_dropped,
            &mut self.ours,
            |text, start, end| {
                let number = find(slots, words, theirs, &text[start..end], seed).unwrap_or(UNKNOWN);
                count += 1;
                shared += usize::from(match unit {
                    Unit::Words => match words.get_mut(position(u64::from(number))) {
                        Some(word) if word.left > 0 => {
                            word.left -= 1;
                            true
                        }
                        _ => false,
                    },
                    Unit::Pairs => before != UNKNOWN && number != UNKNOWN && pairs.take(before, number).1,
                });
                before = number;
            },
        )?;
        let of = |words: usize| match unit {
            Unit::Words => words,
            Unit::Pairs => words.saturating_sub(1),
        };
        Some(Overlap {
            shared,
            prediction: of(count),
            reference: of(numbers.len()),
        })
    }
}

/// Writes the words of a text one after the other, and calls `emit` with what is written and the range of each word.
fn read(
    text: &str,
    bytes: &Bytes,
    is_dropped: fn(&[u8]) -> bool,
    written: &mut Vec<u8>,
    mut emit: impl FnMut(&[u8], usize, usize),
) -> Option<()> {
    written.clear();
    written.resize(text.len(), 0);
    let written = written.as_mut_slice();
    let (mut start, mut end) = (0, 0);
    let mut finish = |written: &[u8], start: usize, end: usize| {
        if is_dropped(&written[start..end]) {
            return start;
        }
        emit(written, start, end);
        end
    };
    for &byte in text.as_bytes() {
        match bytes.0[byte as usize] {
            SPLIT => {
                if end > start {
                    end = finish(written, start, end);
                    start = end;
                }
            }
            SKIP => {}
            OTHER => return None,
            byte => {
                written[end] = byte;
                end += 1;
            }
        }
    }
    if end > start {
        finish(written, start, end);
    }
    Some(())
}

/// The number of a word, or the free slot for it.
fn find(slots: &[u32], words: &[Word], text: &[u8], word: &[u8], seed: u64) -> Result<u32, usize> {
    let mask = slots.len() - 1;
    let mut slot = position(hash(word, seed)) & mask;
    loop {
        let number = slots[slot];
        if number == UNKNOWN {
            return Err(slot);
        }
        let known = &words[position(u64::from(number))];
        if &text[known.start..known.end] == word {
            return Ok(number);
        }
        slot = (slot + 1) & mask;
    }
}
