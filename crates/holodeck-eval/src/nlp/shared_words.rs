//! Words and pairs of words that two texts share, after the normalisation of `rouge_score` or of the SQuAD script.
//! Its buffers are used again by the next pair of texts, and 64 bytes are classified at once, because most answers
//! are short: allocating and branching would take longer than comparing.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_bitwise_bool,
    reason = "ranges of words in their own buffer, tables whose size is a power of two; `&` does not branch"
)]

use std::cell::RefCell;

use super::characters::{Characters, Class};
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
        match unit {
            Unit::Words => buffers.shared_words(|_| true),
            Unit::Pairs => buffers.shared_pairs(),
        }
    }))
}

/// The overlap of words between white space, without ASCII punctuation and articles; `None` for texts with rare
/// characters.
pub(super) fn squad_overlap(prediction: &str, reference: &str) -> Option<Overlap> {
    BUFFERS.with_borrow_mut(|buffers| {
        let Buffers { characters, .. } = buffers;
        let is_read = buffers.reference.read_squad(reference, characters)
            && buffers.prediction.read_squad(prediction, characters);
        is_read.then(|| buffers.shared_words(|key| !key.is_article()))
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
    characters: Characters,
}

impl Buffers {
    fn shared_words(&mut self, counts: impl Fn(&Key) -> bool) -> Overlap {
        let mut overlap = Overlap::default();
        let Self {
            reference,
            prediction,
            words,
            ..
        } = self;
        words.reset(reference.words.len());
        for &word in &reference.words {
            let key = words.key(reference, word);
            let counts = counts(&key);
            words.insert(&key, reference, word, u64::from(counts));
            overlap.reference += usize::from(counts);
        }
        for &word in &prediction.words {
            let key = words.key(prediction, word);
            overlap.prediction += usize::from(counts(&key));
            let (at, is_known) = words.find(&key, reference, prediction, word);
            let left = &mut words.slots[at].left;
            let is_shared = is_known & (*left > 0);
            *left -= u64::from(is_shared);
            overlap.shared += usize::from(is_shared);
        }
        overlap
    }

    fn shared_pairs(&mut self) -> Overlap {
        let Self {
            reference,
            prediction,
            words,
            ..
        } = self;
        words.reset(reference.words.len());
        let mut shared = 0;
        if reference.words.len() <= 64 {
            // A bit for each place of a word: pairs need no table of their own.
            for (place, &word) in reference.words.iter().enumerate() {
                let key = words.key(reference, word);
                words.insert(&key, reference, word, 1 << place);
            }
            let (mut after, mut unused) = (0, u64::MAX);
            for &word in &prediction.words {
                let key = words.key(prediction, word);
                let (at, is_known) = words.find(&key, reference, prediction, word);
                let places = words.slots[at].left & u64::from(is_known).wrapping_neg();
                let ends = places & after & unused;
                shared += usize::from(ends != 0);
                unused &= !(ends & ends.wrapping_neg());
                after = places << 1;
            }
        } else {
            self.numbers.clear();
            for &word in &reference.words {
                let key = words.key(reference, word);
                self.numbers.push(symbol(words.insert(&key, reference, word, 1)));
            }
            self.pairs.reset(reference.words.len());
            for pair in self.numbers.windows(2) {
                self.pairs.add(pair[0], pair[1]);
            }
            let mut before = UNKNOWN;
            for &word in &prediction.words {
                let key = words.key(prediction, word);
                let (at, is_known) = words.find(&key, reference, prediction, word);
                let number = if is_known { symbol(at) } else { UNKNOWN };
                if before != UNKNOWN && number != UNKNOWN {
                    shared += usize::from(self.pairs.take(before, number).1);
                }
                before = number;
            }
        }
        Overlap {
            shared,
            prediction: prediction.words.len().saturating_sub(1),
            reference: reference.words.len().saturating_sub(1),
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
    /// In lower case, followed by spaces: whole blocks, and eight bytes can be read from each place.
    lower: Vec<u8>,
    blocks: Vec<Block>,
    words: Vec<Word>,
}

/// What 64 bytes are, one bit each.
#[derive(Clone, Copy)]
struct Block {
    /// Parts of words.
    word: u64,
    /// White space.
    space: u64,
}

const BLOCK: usize = 64;

impl Text {
    fn read_letters_and_digits(&mut self, text: &str) {
        self.copy(text);
        for block in self.lower.as_chunks_mut::<BLOCK>().0 {
            let word = bits(block, |byte| byte.is_ascii_alphanumeric());
            lower_case(block);
            self.blocks.push(Block { word, space: 0 });
        }
        self.find_words(text.len());
    }

    /// Returns false if the text has characters that only the general normalisation handles.
    fn read_squad(&mut self, text: &str, characters: &mut Characters) -> bool {
        self.copy(text);
        let mut has_low = false;
        for block in self.lower.as_chunks_mut::<BLOCK>().0 {
            let word = bits(block, |byte| byte.is_ascii_alphanumeric() | !byte.is_ascii());
            let space = bits(block, |byte| byte <= b' ');
            has_low |= block
                .iter()
                .fold(false, |any, &byte| any | (byte < b' ') | (byte == 0x7f));
            lower_case(block);
            self.blocks.push(Block { word, space });
        }
        // A control character that is not white space is a part of a word, but separates articles.
        let is_control = |c: char| c.is_ascii_control() && !python::is_space(c);
        if has_low && text.contains(is_control) {
            return false;
        }
        let has_symbols = !text.is_ascii() && {
            let Some(has_symbols) = self.read_characters(text, characters) else {
                return false;
            };
            has_symbols
        };
        self.find_words(text.len());
        self.join_words();
        // Beside a symbol, an article can be a part of a word.
        !has_symbols
            || !self.words.iter().any(|word| {
                let word = &self.lower[word.start..word.end];
                !word.is_ascii() && word.split(|byte| !byte.is_ascii()).any(is_article)
            })
    }

    /// Copies the text, and whole blocks of spaces after it.
    fn copy(&mut self, text: &str) {
        self.blocks.clear();
        self.words.clear();
        self.lower.clear();
        self.lower.extend_from_slice(text.as_bytes());
        self.lower.resize(text.len().next_multiple_of(BLOCK) + 8, b' ');
    }

    /// Converts the characters outside of ASCII, and returns whether some are symbols; `None` if one needs more context.
    fn read_characters(&mut self, text: &str, characters: &mut Characters) -> Option<bool> {
        let mut has_symbols = false;
        for (at, c) in text.char_indices() {
            if c.is_ascii() {
                continue;
            }
            let known = characters.get(c);
            match known.class {
                Class::Letter => {}
                Class::Symbol => has_symbols = true,
                Class::Space => {
                    for at in at..at + c.len_utf8() {
                        let block = &mut self.blocks[at / BLOCK];
                        block.word &= !(1 << (at % BLOCK));
                        block.space |= 1 << (at % BLOCK);
                    }
                }
                Class::Rare => return None,
            }
            if known.lower != c {
                known.lower.encode_utf8(&mut self.lower[at..]);
            }
        }
        Some(has_symbols)
    }

    /// Adds each run of parts of words.
    fn find_words(&mut self, len: usize) {
        let (mut is_word, mut ended) = (0, 0);
        for (begin, block) in (0..).step_by(BLOCK).zip(&self.blocks) {
            let before = block.word << 1 | is_word;
            is_word = block.word >> 63;
            let (mut starts, mut ends) = (block.word & !before, before & !block.word);
            while starts != 0 {
                let start = begin + position(u64::from(starts.trailing_zeros()));
                self.words.push(Word { start, end: len });
                starts &= starts - 1;
            }
            while ends != 0 {
                self.words[ended].end = begin + position(u64::from(ends.trailing_zeros()));
                ended += 1;
                ends &= ends - 1;
            }
        }
    }

    /// Joins the parts of words that have only punctuation between them.
    fn join_words(&mut self) {
        let (mut is_word, mut carry, mut any) = (0, false, 0);
        for block in &mut self.blocks {
            // Adding the first bit of a run of punctuation after a word sets the bit after the run.
            let between = !(block.word | block.space);
            let (sum, first) = between.overflowing_add(between & (block.word << 1 | is_word));
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (is_word, carry) = (block.word >> 63, first | second);
            // What belongs to the part before.
            block.word &= sum;
            any |= block.word;
        }
        if any == 0 {
            return;
        }
        let mut joined = 0;
        for place in 0..self.words.len() {
            let Word { start, end } = self.words[place];
            if self.blocks[start / BLOCK].word >> (start % BLOCK) & 1 == 0 {
                self.words[joined] = Word { start, end };
                joined += 1;
            } else {
                let last = &mut self.words[joined - 1];
                self.lower.copy_within(start..end, last.end);
                last.end += end - start;
            }
        }
        self.words.truncate(joined);
    }
}

/// A bit for each byte that fulfils the condition. Compiled to instructions on several bytes.
#[inline]
fn bits(block: &[u8; BLOCK], is_set: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0; BLOCK];
    for (flag, &byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(is_set(byte));
    }
    let mut bits = 0;
    for (place, &eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        // Moves the lowest bit of byte i to bit i.
        bits |= (u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * place);
    }
    bits
}

#[inline]
fn lower_case(block: &mut [u8; BLOCK]) {
    for byte in block {
        *byte |= u8::from(byte.is_ascii_uppercase()) << 5;
    }
}

/// A word as it is compared: words of at most 16 bytes are equal exactly if these fields are.
#[derive(Clone, Copy)]
struct Key {
    /// The first eight bytes, or all and zeros.
    head: u64,
    /// The last eight bytes; zeros if there are less than eight.
    tail: u64,
    /// The length, and above it the pair of texts.
    tag: u64,
}

impl Key {
    #[inline]
    fn is_article(&self) -> bool {
        let is = |word: [u8; 8]| self.head == u64::from_le_bytes(word);
        is(*b"a\0\0\0\0\0\0\0") | is(*b"an\0\0\0\0\0\0") | is(*b"the\0\0\0\0\0")
    }

    fn length(&self) -> u64 {
        self.tag & LENGTHS
    }
}

const LENGTHS: u64 = (1 << 32) - 1;

#[derive(Clone, Copy, Default)]
struct Slot {
    head: u64,
    tail: u64,
    tag: u64,
    /// How often the word can still be shared; if pairs are shared, a bit for each of its places.
    left: u64,
    /// Where the word begins.
    start: usize,
}

/// The words of the reference, and how often each can still be shared. What depends on whether a word is shared is
/// computed without branches, because no processor can predict it.
#[derive(Default)]
struct WordTable {
    slots: Vec<Slot>,
    shift: u32,
    /// The pair of texts, from one; slots of other pairs are free.
    round: u64,
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
        self.round += 1;
        if self.round > LENGTHS {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    #[inline]
    fn key(&self, text: &Text, word: Word) -> Key {
        let length = word.end - word.start;
        let read = |at: usize| {
            let bytes = text.lower.get(at..).and_then(<[u8]>::first_chunk::<8>);
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let unused = 8 * (8 - length.min(8)) % 64;
        Key {
            head: read(word.start) << unused >> unused,
            tail: if length < 8 { 0 } else { read(word.end - 8) },
            tag: self.round << 32 | u64::from(symbol(length)),
        }
    }

    /// Adds `more` to what is left of a word of the reference. Returns its number.
    #[inline]
    fn insert(&mut self, key: &Key, text: &Text, word: Word, more: u64) -> usize {
        let (at, is_known) = self.find(key, text, text, word);
        let slot = &mut self.slots[at];
        *slot = Slot {
            head: key.head,
            tail: key.tail,
            tag: key.tag,
            left: (slot.left & u64::from(is_known).wrapping_neg()) + more,
            start: word.start,
        };
        at
    }

    /// The slot of the word, or the free slot for it.
    #[inline]
    fn find(&self, key: &Key, reference: &Text, text: &Text, word: Word) -> (usize, bool) {
        let (head, tail) = self.factors;
        let hash = key.head.wrapping_mul(head) ^ key.tail.wrapping_mul(tail);
        let mut at = position(hash >> self.shift);
        loop {
            let slot = &self.slots[at];
            let is_used = slot.tag >> 32 == self.round;
            let difference = (slot.head ^ key.head) | (slot.tail ^ key.tail) | (slot.tag ^ key.tag);
            if is_used & ((difference != 0) | (key.length() > 16)) {
                if difference == 0 && is_equal(reference, slot, text, word) {
                    return (at, true);
                }
                at = (at + 1) & ((1 << (64 - self.shift)) - 1);
                continue;
            }
            return (at, is_used);
        }
    }
}

#[cold]
fn is_equal(reference: &Text, slot: &Slot, text: &Text, word: Word) -> bool {
    reference.lower[slot.start..slot.start + word.end - word.start] == text.lower[word.start..word.end]
}

#[cfg(test)]
mod tests {
    use super::*;

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
