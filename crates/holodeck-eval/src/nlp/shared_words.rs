//! Words and pairs of words that two texts share, after the normalisation of `rouge_score` or of the SQuAD script.
//! Its buffers are used again by the next pair of texts, and eight bytes are classified at once, because most answers
//! are short: allocating and branching would take longer than comparing.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_bitwise_bool,
    reason = "ranges of words in their own buffer, tables whose size is a power of two; `&` does not branch"
)]

use std::borrow::Cow;
use std::cell::RefCell;

use super::ngrams::{Overlap, PairTable, UNKNOWN, position, seed, symbol};
use super::python;

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Words,
    Pairs,
}

/// The overlap of words of ASCII letters and digits; `None` for two characters whose lower case has ASCII letters.
pub(super) fn rouge_overlap(prediction: &str, reference: &str, unit: Unit) -> Option<Overlap> {
    // The Kelvin sign and I with a dot above.
    let is_exception = |text: &str| !text.is_ascii() && text.contains(['\u{212a}', '\u{130}']);
    if is_exception(prediction) || is_exception(reference) {
        return None;
    }
    Some(BUFFERS.with_borrow_mut(|buffers| {
        buffers.reference.read_letters_and_digits(reference);
        buffers.prediction.read_letters_and_digits(prediction);
        buffers.overlap(unit)
    }))
}

/// The overlap of words between white space, without ASCII punctuation and articles.
pub(super) fn squad_overlap(prediction: &str, reference: &str) -> Overlap {
    BUFFERS.with_borrow_mut(|buffers| {
        buffers.reference.read_squad(reference);
        buffers.prediction.read_squad(prediction);
        buffers.overlap(Unit::Words)
    })
}

pub(super) fn is_article(word: &[u8]) -> bool {
    matches!(word, b"a" | b"an" | b"the")
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

#[derive(Default)]
struct Buffers {
    reference: Text,
    prediction: Text,
    words: WordTable,
    /// The numbers of the reference's words in their order.
    numbers: Vec<u32>,
    pairs: PairTable,
}

impl Buffers {
    fn overlap(&mut self, unit: Unit) -> Overlap {
        let (reference, prediction) = (&self.reference, &self.prediction);
        let (theirs, ours) = (reference.words.len(), prediction.words.len());
        self.words.reset(theirs);
        match unit {
            Unit::Words => {
                for &word in &reference.words {
                    self.words.insert(reference, word);
                }
                let mut shared = 0;
                for &word in &prediction.words {
                    shared += usize::from(self.words.take(reference, prediction, word));
                }
                Overlap {
                    shared,
                    prediction: ours,
                    reference: theirs,
                }
            }
            Unit::Pairs => {
                self.numbers.clear();
                for &word in &reference.words {
                    self.numbers.push(self.words.insert(reference, word));
                }
                self.pairs.reset(theirs);
                for pair in self.numbers.windows(2) {
                    self.pairs.add(pair[0], pair[1]);
                }
                let (mut shared, mut before) = (0, UNKNOWN);
                for &word in &prediction.words {
                    let number = self.words.number(reference, prediction, word);
                    if before != UNKNOWN && number != UNKNOWN {
                        shared += usize::from(self.pairs.take(before, number).1);
                    }
                    before = number;
                }
                Overlap {
                    shared,
                    prediction: ours.saturating_sub(1),
                    reference: theirs.saturating_sub(1),
                }
            }
        }
    }
}

/// A word, by its place in the normalised text.
#[derive(Clone, Copy)]
struct Word {
    start: usize,
    end: usize,
}

/// A normalised text and its words.
#[derive(Default)]
struct Text {
    /// Followed by eight bytes of no meaning, so that eight can be read from each place.
    lower: Vec<u8>,
    /// A bit for each byte that is an ASCII letter or digit.
    masks: Vec<u64>,
    words: Vec<Word>,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = ONES << 7;

impl Text {
    fn read_letters_and_digits(&mut self, text: &str) {
        self.classify(text.as_bytes());
        self.words.clear();
        let words = &mut self.words;
        for_each_run(&self.masks, text.len(), |start, end| {
            words.push(Word { start, end });
        });
    }

    fn read_squad(&mut self, text: &str) {
        self.words.clear();
        if !text.is_ascii() || !self.read_ascii_squad(text.as_bytes()) {
            self.read_any_squad(text);
        }
    }

    /// Writes the bytes in lower case and marks the letters and digits. Other bytes become meaningless.
    fn classify(&mut self, bytes: &[u8]) {
        self.lower.clear();
        self.lower.reserve(bytes.len() + 16);
        self.masks.clear();
        for block in bytes.chunks(64) {
            let mut mask = 0;
            let (chunks, rest) = block.as_chunks::<8>();
            for (place, chunk) in chunks.iter().enumerate() {
                mask |= self.classify_chunk(*chunk) << (8 * place);
            }
            if !rest.is_empty() {
                let mut chunk = [0; 8];
                chunk[..rest.len()].copy_from_slice(rest);
                mask |= self.classify_chunk(chunk) << (8 * chunks.len());
            }
            self.masks.push(mask);
        }
        self.lower.extend_from_slice(&[0; 8]);
    }

    fn classify_chunk(&mut self, chunk: [u8; 8]) -> u64 {
        let chunk = u64::from_le_bytes(chunk);
        // The bit 0x20 makes letters lower case, and digits have it.
        let lower = chunk | (ONES * 0x20);
        self.lower.extend_from_slice(&lower.to_le_bytes());
        // The high bit of each byte that is at least the first and at most the last one. No sum carries to the next byte.
        let between = |bytes: u64, first: u8, last: u8| {
            (bytes + ONES * u64::from(0x80 - first)) & !(bytes + ONES * u64::from(0x7f - last))
        };
        let ascii = chunk & !HIGH_BITS;
        let found = between(lower & !HIGH_BITS, b'a', b'z') | between(ascii, b'0', b'9');
        // Moves the high bit of byte i to bit i.
        ((found & !chunk & HIGH_BITS) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    }

    /// Returns false for a control character that is not white space, because it is a part of a word.
    fn read_ascii_squad(&mut self, bytes: &[u8]) -> bool {
        self.classify(bytes);
        let Self { lower, masks, words } = self;
        let mut word = Word { start: 0, end: 0 };
        let (mut before, mut found) = (0, 0);
        let mut finish = |lower: &[u8], word: Word| {
            if word.end > word.start && !is_article(&lower[word.start..word.end]) {
                words.push(word);
            }
        };
        for_each_run(masks, bytes.len(), |start, end| {
            let between = meaning(&bytes[before..start]);
            found |= between;
            if between & SEPARATES != 0 || word.end == word.start {
                finish(lower, word);
                word = Word { start, end };
            } else {
                // Without the punctuation between its parts.
                lower.copy_within(start..end, word.end);
                word.end += end - start;
            }
            before = end;
        });
        finish(lower, word);
        (found | meaning(&bytes[before..])) & IS_CONTROL == 0
    }

    fn read_any_squad(&mut self, text: &str) {
        // The lower case of sigma depends on what follows.
        let text = if text.contains('Σ') {
            Cow::Owned(text.to_lowercase())
        } else {
            Cow::Borrowed(text)
        };
        self.lower.clear();
        self.words.clear();
        let mut normalizer = Normalizer {
            text: self,
            word: 0,
            run: 0,
        };
        for c in text.chars() {
            if c.is_ascii_punctuation() {
                continue;
            }
            if c.is_ascii() {
                normalizer.push(c.to_ascii_lowercase());
            } else if is_plain_letter(c) {
                normalizer.write(c);
            } else {
                c.to_lowercase().for_each(|c| normalizer.push(c));
            }
        }
        normalizer.finish_run();
        normalizer.finish_word();
        self.lower.extend_from_slice(&[0; 8]);
    }
}

/// Removes articles between any two characters that are not a part of a word, not only those between spaces.
struct Normalizer<'t> {
    text: &'t mut Text,
    /// Where the word between white space begins.
    word: usize,
    /// Where the letters and digits begin that were written last.
    run: usize,
}

impl Normalizer<'_> {
    fn push(&mut self, c: char) {
        if python::is_space(c) {
            self.finish_run();
            self.finish_word();
            return;
        }
        if python::is_word(c) {
            self.write(c);
            return;
        }
        self.finish_run();
        self.write(c);
        self.run = self.text.lower.len();
    }

    fn write(&mut self, c: char) {
        let mut bytes = [0; 4];
        self.text
            .lower
            .extend_from_slice(c.encode_utf8(&mut bytes).as_bytes());
    }

    /// An article becomes a space.
    fn finish_run(&mut self) {
        if is_article(&self.text.lower[self.run..]) {
            self.text.lower.truncate(self.run);
            self.finish_word();
        }
        self.run = self.text.lower.len();
    }

    fn finish_word(&mut self) {
        let end = self.text.lower.len();
        if end > self.word {
            self.text.words.push(Word {
                start: self.word,
                end,
            });
        }
        (self.word, self.run) = (end, end);
    }
}

/// Whether the character is one of those letters in lower case, or without case, that most texts consist of.
fn is_plain_letter(c: char) -> bool {
    matches!(c, 'ß'..='ö' | 'ø'..='ÿ' | 'а'..='џ' | 'α'..='ω' | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '一'..='鿿' | '가'..='힣')
}

/// Calls `emit` with the bounds of each run of set bits.
fn for_each_run(masks: &[u64], len: usize, mut emit: impl FnMut(usize, usize)) {
    let (mut start, mut open) = (0, false);
    for (block, &mask) in masks.iter().enumerate() {
        let mut edges = mask ^ (mask << 1 | u64::from(open));
        while edges != 0 {
            let place = block * 64 + position(u64::from(edges.trailing_zeros()));
            edges &= edges - 1;
            if open {
                emit(start, place);
            }
            (start, open) = (place, !open);
        }
    }
    if open {
        emit(start, len);
    }
}

fn meaning(bytes: &[u8]) -> u8 {
    bytes
        .iter()
        .fold(0, |meaning, &byte| meaning | BETWEEN[usize::from(byte)])
}

/// What a byte between letters and digits means for the SQuAD script.
const SEPARATES: u8 = 1;
const IS_CONTROL: u8 = 2;

static BETWEEN: [u8; 256] = {
    let mut meanings = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        meanings[byte as usize] = if matches!(byte, b'\t'..=b'\r' | 0x1c..=b' ') {
            SEPARATES
        } else if byte.is_ascii_control() {
            IS_CONTROL
        } else {
            0
        };
        byte += 1;
    }
    meanings
};

/// A word as it is compared: words of at most 16 bytes are equal exactly if these fields are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Key {
    /// The first eight bytes, or all and zeros.
    head: u64,
    /// The last eight bytes; zeros if there are less than eight.
    tail: u64,
    length: u32,
}

impl Key {
    #[inline]
    fn new(text: &Text, word: Word) -> Self {
        let length = word.end - word.start;
        let read = |at: usize| {
            let bytes = text.lower.get(at..).and_then(<[u8]>::first_chunk::<8>);
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let unused = 8 * (8 - length.min(8)) % 64;
        Self {
            head: read(word.start) << unused >> unused,
            tail: if length < 8 { 0 } else { read(word.end - 8) },
            length: symbol(length),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// Where the word begins.
    start: u32,
    /// How often the word can still be shared.
    left: u32,
    /// The pair of texts that wrote the slot.
    round: u32,
}

/// The words of the reference, and how often each can still be shared. What depends on whether a word is shared is
/// computed without branches, because no processor can predict it.
#[derive(Default)]
struct WordTable {
    slots: Vec<Slot>,
    shift: u32,
    round: u32,
    /// Secret factors, so that no text can be made whose words all get the same slot.
    factors: (u64, u64),
}

impl WordTable {
    fn reset(&mut self, words: usize) {
        let bits = (words * 2).next_power_of_two().max(2).trailing_zeros();
        if self.slots.len() < 1 << bits {
            self.slots.resize(1 << bits, Slot::default());
        }
        self.shift = 64 - bits;
        self.factors = (seed() | 1, seed().rotate_left(32) | 1);
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    /// Adds a word of the reference. Returns its number.
    #[inline]
    fn insert(&mut self, text: &Text, word: Word) -> u32 {
        let key = Key::new(text, word);
        let (at, is_known) = self.find(&key, text, text, word);
        let round = self.round;
        let slot = &mut self.slots[at];
        *slot = Slot {
            key,
            start: if is_known { slot.start } else { symbol(word.start) },
            left: if is_known { slot.left + 1 } else { 1 },
            round,
        };
        symbol(at)
    }

    /// The number of a word of the prediction, [`UNKNOWN`] if the reference does not have it.
    #[inline]
    fn number(&self, reference: &Text, text: &Text, word: Word) -> u32 {
        let (at, is_known) = self.find(&Key::new(text, word), reference, text, word);
        if is_known { symbol(at) } else { UNKNOWN }
    }

    /// Whether the reference has the word once more.
    #[inline]
    fn take(&mut self, reference: &Text, text: &Text, word: Word) -> bool {
        let (at, is_known) = self.find(&Key::new(text, word), reference, text, word);
        let slot = &mut self.slots[at];
        let is_shared = is_known & (slot.left > 0);
        slot.left -= u32::from(is_shared);
        is_shared
    }

    /// The slot of the word, or the free slot for it.
    #[inline]
    fn find(&self, key: &Key, reference: &Text, text: &Text, word: Word) -> (usize, bool) {
        let mask = (1 << (64 - self.shift)) - 1;
        let (head, tail) = self.factors;
        let hash = key.head.wrapping_mul(head) ^ key.tail.wrapping_mul(tail);
        let mut at = position(hash >> self.shift);
        loop {
            let slot = &self.slots[at];
            let is_used = slot.round == self.round;
            let is_same = (slot.key.head ^ key.head)
                | (slot.key.tail ^ key.tail)
                | u64::from(slot.key.length ^ key.length);
            if is_used & ((is_same != 0) | (key.length > 16)) {
                if is_same == 0 && is_equal(reference, slot, text, word) {
                    return (at, true);
                }
                at = (at + 1) & mask;
                continue;
            }
            return (at, is_used);
        }
    }
}

#[cold]
fn is_equal(reference: &Text, slot: &Slot, text: &Text, word: Word) -> bool {
    let start = position(u64::from(slot.start));
    reference.lower[start..start + word.end - word.start] == text.lower[word.start..word.end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_letters_are_letters_in_lower_case() {
        let plain: Vec<char> = ('\0'..=char::MAX).filter(|&c| is_plain_letter(c)).collect();
        assert!(plain.len() > 32_000);
        for c in plain {
            assert!(python::is_word(c) && !python::is_space(c), "{c:?}");
            assert!(c.to_lowercase().eq([c]), "{c:?}");
        }
    }

    #[test]
    fn long_words_are_compared_to_their_end() {
        let overlap =
            |prediction, reference| rouge_overlap(prediction, reference, Unit::Words).unwrap().shared;
        for (prediction, reference, shared) in [
            ("abcdefgh0ijklmnop", "abcdefgh0ijklmnop", 1),
            ("abcdefgh0ijklmnop", "abcdefgh1ijklmnop", 0),
            ("abcdefgh00ijklmnop", "abcdefgh0ijklmnop", 0),
            ("aaaaaaaa", "aaaaaaaaa", 0),
            ("abcdefghijklmnop", "abcdefghijklmnop", 1),
            ("ABCDEFG", "abcdefg", 1),
            ("abcdefg", "abcdefgh", 0),
        ] {
            assert_eq!(overlap(prediction, reference), shared, "{prediction} {reference}");
        }
    }
}
