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

/// Whose words: those of the SQuAD script, which may have punctuation inside and may be articles, or others.
const SQUAD: bool = true;
const ROUGE: bool = false;

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
            Unit::Words => buffers.shared_words::<ROUGE>(),
            Unit::Pairs => buffers.shared_pairs(),
        }
    }))
}

/// The overlap of words between white space, without ASCII punctuation and articles; `None` for texts with rare
/// characters.
pub(super) fn squad_overlap(prediction: &str, reference: &str) -> Option<Overlap> {
    BUFFERS.with_borrow_mut(|buffers| {
        let is_read = buffers.reference.read_squad(reference) && buffers.prediction.read_squad(prediction);
        is_read.then(|| buffers.shared_words::<SQUAD>())
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
    table: WordTable,
    /// The numbers of the reference's words in their order.
    numbers: Vec<u32>,
    pairs: PairTable,
}

impl Buffers {
    fn shared_words<const KIND: bool>(&mut self) -> Overlap {
        let Self {
            reference,
            prediction,
            table,
            ..
        } = self;
        let mut overlap = Overlap::default();
        table.reset(reference.count_runs());
        reference.for_each_word::<KIND>(|lower, word| {
            let counts = KIND != SQUAD || !word.is_article();
            table.insert(lower, word, u64::from(counts));
            overlap.reference += usize::from(counts);
        });
        prediction.for_each_word::<KIND>(|lower, word| {
            overlap.prediction += usize::from(KIND != SQUAD || !word.is_article());
            let (at, is_known) = table.find(&reference.lower, lower, word);
            let left = &mut table.slots[at].left;
            let is_shared = is_known & (*left > 0);
            *left -= u64::from(is_shared);
            overlap.shared += usize::from(is_shared);
        });
        overlap
    }

    fn shared_pairs(&mut self) -> Overlap {
        let Self {
            reference,
            prediction,
            table,
            numbers,
            pairs,
        } = self;
        let mut shared = 0;
        let (theirs, ours) = (reference.count_runs(), prediction.count_runs());
        table.reset(theirs);
        if theirs <= 64 {
            // A bit for each place of a word: pairs need no table of their own.
            let mut place = 1;
            reference.for_each_word::<ROUGE>(|lower, word| {
                table.insert(lower, word, place);
                place <<= 1;
            });
            let (mut after, mut unused) = (0, u64::MAX);
            prediction.for_each_word::<ROUGE>(|lower, word| {
                let (at, is_known) = table.find(&reference.lower, lower, word);
                let places = table.slots[at].left & u64::from(is_known).wrapping_neg();
                let ends = places & after & unused;
                shared += usize::from(ends != 0);
                unused &= !(ends & ends.wrapping_neg());
                after = places << 1;
            });
        } else {
            numbers.clear();
            reference.for_each_word::<ROUGE>(|lower, word| {
                numbers.push(symbol(table.insert(lower, word, 1)));
            });
            pairs.reset(theirs);
            for pair in numbers.windows(2) {
                pairs.add(pair[0], pair[1]);
            }
            let mut before = UNKNOWN;
            prediction.for_each_word::<ROUGE>(|lower, word| {
                let (at, is_known) = table.find(&reference.lower, lower, word);
                let number = if is_known { symbol(at) } else { UNKNOWN };
                if before != UNKNOWN && number != UNKNOWN {
                    shared += usize::from(pairs.take(before, number).1);
                }
                before = number;
            });
        }
        Overlap {
            shared,
            prediction: ours.saturating_sub(1),
            reference: theirs.saturating_sub(1),
        }
    }
}

/// A word: its first 16 bytes, with zeros after it, and its place in the normalised text. No text has zeros in words.
#[derive(Clone, Copy, Default)]
struct Word {
    head: u64,
    rest: u64,
    start: usize,
    end: usize,
}

impl Word {
    #[inline]
    fn new(lower: &[u8], start: usize, end: usize) -> Self {
        let length = end - start;
        let read = |at: usize, length: usize| {
            let bytes = lower.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            let unused = 8 * (8 - length.min(8));
            u64::from_le_bytes(bytes.unwrap_or_default()) << unused >> unused
        };
        Self {
            head: read(start, length),
            rest: if length > 8 {
                read(start + 8, length - 8)
            } else {
                0
            },
            start,
            end,
        }
    }

    #[inline]
    fn is_article(&self) -> bool {
        let is = |word: [u8; 8]| self.head == u64::from_le_bytes(word);
        is(*b"a\0\0\0\0\0\0\0") | is(*b"an\0\0\0\0\0\0") | is(*b"the\0\0\0\0\0")
    }

    /// Whether it can have more than 16 bytes.
    fn is_long(&self) -> bool {
        self.rest >> 56 != 0
    }
}

/// A normalised text.
#[derive(Default)]
struct Text {
    /// In lower case, followed by spaces: whole blocks and 16 bytes, so that 16 can be read from each place.
    lower: Vec<u8>,
    /// For each block, the bytes that are parts of words. The last byte is none.
    parts: Vec<u64>,
    characters: Characters,
}

/// How many bytes are classified at once: a bit for each.
const BLOCK: usize = 64;

impl Text {
    fn read_letters_and_digits(&mut self, text: &str) {
        self.copy(text);
        for block in self.lower.as_chunks_mut::<BLOCK>().0 {
            self.parts.push(bits(block, |byte| byte.is_ascii_alphanumeric()));
            lower_case(block);
        }
    }

    /// Returns false if the text has characters that only the general normalisation handles.
    fn read_squad(&mut self, text: &str) -> bool {
        self.copy(text);
        let has_symbols = !text.is_ascii() && {
            let Some(has_symbols) = self.read_characters(text) else {
                return false;
            };
            has_symbols
        };
        // One more word, which is not passed on, because only the next word ends a word.
        self.lower[text.len() + 1] = b'a';
        let mut has_low = false;
        for block in self.lower.as_chunks_mut::<BLOCK>().0 {
            self.parts.push(bits(block, is_part));
            has_low |= block
                .iter()
                .fold(false, |any, &byte| any | (byte < b' ') | (byte == 0x7f));
            lower_case(block);
        }
        // A control character that is not white space is a part of a word, but separates articles.
        if has_low && text.contains(|c: char| c.is_ascii_control() && !python::is_space(c)) {
            return false;
        }
        // Beside a symbol, an article can be a part of a word.
        let mut is_read = true;
        if has_symbols {
            self.for_each_word::<ROUGE>(|lower, run| {
                let text = &lower[run.start..run.end];
                let is_alone = text.is_ascii()
                    && lower[run.end] == b' '
                    && (run.start == 0 || lower[run.start - 1] == b' ');
                is_read &= is_alone || !text.split(|byte| !byte.is_ascii()).any(is_article);
            });
        }
        is_read
    }

    /// Copies the text, and spaces after it.
    fn copy(&mut self, text: &str) {
        self.parts.clear();
        self.lower.clear();
        self.lower.extend_from_slice(text.as_bytes());
        self.lower
            .resize((text.len() + 3).next_multiple_of(BLOCK) + 16, b' ');
    }

    /// Converts the characters outside of ASCII, and returns whether some are symbols; `None` if one needs more context.
    fn read_characters(&mut self, text: &str) -> Option<bool> {
        let mut has_symbols = false;
        for (at, c) in text.char_indices().filter(|(_, c)| !c.is_ascii()) {
            let known = self.characters.get(c);
            match known.class {
                Class::Letter => {}
                Class::Symbol => has_symbols = true,
                Class::Space => self.lower[at..at + c.len_utf8()].fill(b' '),
                Class::Rare => return None,
            }
            if known.lower != c {
                known.lower.encode_utf8(&mut self.lower[at..]);
            }
        }
        Some(has_symbols)
    }

    fn count_runs(&self) -> usize {
        let mut before = 0;
        let starts = self.parts.iter().map(|&parts| {
            let starts = parts & !(parts << 1 | before);
            before = parts >> 63;
            position(u64::from(starts.count_ones()))
        });
        starts.sum()
    }

    /// Passes the words on: runs of parts, or several runs with only punctuation between them. The text cannot be read
    /// a second time after it was joined.
    #[inline]
    fn for_each_word<const KIND: bool>(&mut self, mut emit: impl FnMut(&[u8], &Word)) {
        let lower = &mut self.lower[..];
        // The next run may belong to it.
        let mut last = Word::default();
        let (mut start, mut before) = (0, 0);
        for (begin, parts) in (0..).step_by(BLOCK).zip(&self.parts) {
            let shifted = parts << 1 | before;
            let (mut starts, mut ends) = (parts & !shifted, shifted & !parts);
            let mut next_start = || {
                let start = begin + position(u64::from(starts.trailing_zeros()));
                starts &= starts.wrapping_sub(1);
                start
            };
            if before == 0 {
                start = next_start();
            }
            while ends != 0 {
                let end = begin + position(u64::from(ends.trailing_zeros()));
                ends &= ends - 1;
                let run = Word::new(lower, start, end);
                start = next_start();
                if KIND == ROUGE {
                    emit(lower, &run);
                } else if run.start > 0
                    && lower[run.start - 1] > b' '
                    && let Some(joined) = join(lower, &last, &run)
                {
                    last = joined;
                } else {
                    if last.end > 0 {
                        emit(lower, &last);
                    }
                    last = run;
                }
            }
            before = parts >> 63;
        }
    }
}

/// Whether the SQuAD script keeps a byte.
fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() | !byte.is_ascii()
}

/// The last word with the part moved to its end, if there is only punctuation between them.
#[cold]
fn join(lower: &mut [u8], last: &Word, part: &Word) -> Option<Word> {
    let before = lower[..part.start]
        .iter()
        .rfind(|&&byte| is_part(byte) | (byte <= b' '))?;
    if !is_part(*before) {
        return None;
    }
    lower.copy_within(part.start..part.end, last.end);
    Some(Word::new(lower, last.start, last.end + part.end - part.start))
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

#[derive(Clone, Copy, Default)]
struct Slot {
    head: u64,
    rest: u64,
    /// How often the word can still be shared; if pairs are shared, a bit for each of its places.
    left: u64,
    /// Where a long word is in the list of those.
    place: u32,
    /// The pair of texts that wrote the slot.
    round: u32,
}

/// The words of the reference, and how often each can still be shared. What depends on whether a word is shared is
/// computed without branches, because no processor can predict it.
#[derive(Default)]
struct WordTable {
    slots: Vec<Slot>,
    long_words: Vec<Word>,
    shift: u32,
    round: u32,
    /// Secret factors, so that no text can be made whose words all get the same slot.
    factors: (u64, u64),
}

impl WordTable {
    fn reset(&mut self, words: usize) {
        let bits = (words * 4).next_power_of_two().max(2).trailing_zeros();
        if self.slots.len() < 1 << bits {
            self.slots.resize(1 << bits, Slot::default());
        }
        self.long_words.clear();
        self.shift = 64 - bits;
        self.factors = (seed() | 1, seed().rotate_left(32) | 1);
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    /// Adds `more` to what is left of a word of the reference. Returns its number.
    #[inline]
    fn insert(&mut self, reference: &[u8], word: &Word, more: u64) -> usize {
        let (at, is_known) = self.find(reference, reference, word);
        if word.is_long() && !is_known {
            self.slots[at].place = symbol(self.long_words.len());
            self.long_words.push(*word);
        }
        let slot = &mut self.slots[at];
        slot.head = word.head;
        slot.rest = word.rest;
        slot.left = slot.left * u64::from(is_known) + more;
        slot.round = self.round;
        at
    }

    /// The slot of a word of `text`, or the free slot for it.
    #[inline]
    fn find(&self, reference: &[u8], text: &[u8], word: &Word) -> (usize, bool) {
        let (head, rest) = self.factors;
        let hash = word.head.wrapping_mul(head) ^ word.rest.wrapping_mul(rest);
        let mut at = position(hash >> self.shift);
        loop {
            let slot = &self.slots[at];
            let is_used = slot.round == self.round;
            let difference = (slot.head ^ word.head) | (slot.rest ^ word.rest);
            if is_used & ((difference != 0) | word.is_long()) {
                if difference == 0 && self.is_equal(slot, reference, text, word) {
                    return (at, true);
                }
                at = (at + 1) & ((1 << (64 - self.shift)) - 1);
                continue;
            }
            return (at, is_used);
        }
    }

    #[cold]
    fn is_equal(&self, slot: &Slot, reference: &[u8], text: &[u8], word: &Word) -> bool {
        let known = &self.long_words[position(u64::from(slot.place))];
        reference[known.start..known.end] == text[word.start..word.end]
    }
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
