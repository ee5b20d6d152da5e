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
            Unit::Words => buffers.shared_words(),
            Unit::Pairs => buffers.shared_pairs(),
        }
    }))
}

/// The overlap of words between white space, without ASCII punctuation and articles; `None` for texts with rare
/// characters.
pub(super) fn squad_overlap(prediction: &str, reference: &str) -> Option<Overlap> {
    BUFFERS.with_borrow_mut(|buffers| {
        let is_read = buffers.reference.read_squad(reference) && buffers.prediction.read_squad(prediction);
        is_read.then(|| buffers.shared_words())
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
    fn shared_words(&mut self) -> Overlap {
        let Self {
            reference,
            prediction,
            table,
            ..
        } = self;
        table.reset(reference.words().len());
        for place in 0..reference.words().len() {
            table.insert(reference, place, 1);
        }
        let mut shared = 0;
        for word in prediction.words() {
            let (at, is_known) = table.find(reference, prediction, word);
            let left = &mut table.slots[at].left;
            let is_shared = is_known & (*left > 0);
            *left -= u64::from(is_shared);
            shared += usize::from(is_shared);
        }
        Overlap {
            shared,
            prediction: prediction.words().len(),
            reference: reference.words().len(),
        }
    }

    fn shared_pairs(&mut self) -> Overlap {
        let Self {
            reference,
            prediction,
            table,
            ..
        } = self;
        let mut shared = 0;
        table.reset(reference.words().len());
        if reference.words().len() <= 64 {
            // A bit for each place of a word: pairs need no table of their own.
            for place in 0..reference.words().len() {
                table.insert(reference, place, 1 << place);
            }
            let (mut after, mut unused) = (0, u64::MAX);
            for word in prediction.words() {
                let (at, is_known) = table.find(reference, prediction, word);
                let places = table.slots[at].left & u64::from(is_known).wrapping_neg();
                let ends = places & after & unused;
                shared += usize::from(ends != 0);
                unused &= !(ends & ends.wrapping_neg());
                after = places << 1;
            }
        } else {
            let places = 0..reference.words().len();
            self.numbers.clear();
            self.numbers
                .extend(places.map(|place| symbol(table.insert(reference, place, 1))));
            self.pairs.reset(reference.words().len());
            for pair in self.numbers.windows(2) {
                self.pairs.add(pair[0], pair[1]);
            }
            let mut before = UNKNOWN;
            for word in prediction.words() {
                let (at, is_known) = table.find(reference, prediction, word);
                let number = if is_known { symbol(at) } else { UNKNOWN };
                if before != UNKNOWN && number != UNKNOWN {
                    shared += usize::from(self.pairs.take(before, number).1);
                }
                before = number;
            }
        }
        Overlap {
            shared,
            prediction: prediction.words().len().saturating_sub(1),
            reference: reference.words().len().saturating_sub(1),
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
    /// A buffer whose first elements are the words.
    words: Vec<Word>,
    count: usize,
    characters: Characters,
}

/// How many bytes are classified at once: a bit for each.
const BLOCK: usize = 64;

impl Text {
    fn words(&self) -> &[Word] {
        &self.words[..self.count]
    }

    fn read_letters_and_digits(&mut self, text: &str) {
        self.copy(text);
        for block in self.lower.as_chunks_mut::<BLOCK>().0 {
            self.parts.push(bits(block, |byte| byte.is_ascii_alphanumeric()));
            lower_case(block);
        }
        self.find_words::<false>();
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
        self.find_words::<true>();
        // Beside a symbol, an article can be a part of a word.
        !has_symbols
            || !self.words().iter().any(|word| {
                let word = &self.lower[word.start..word.end];
                !word.is_ascii() && word.split(|byte| !byte.is_ascii()).any(is_article)
            })
    }

    /// Copies the text, and spaces after it.
    fn copy(&mut self, text: &str) {
        self.parts.clear();
        self.lower.clear();
        self.lower.extend_from_slice(text.as_bytes());
        self.lower
            .resize((text.len() + 1).next_multiple_of(BLOCK) + 16, b' ');
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

    /// Finds the words, which are runs of parts. For the SQuAD script, runs with only punctuation between them are one
    /// word, and articles do not count.
    #[inline]
    fn find_words<const SQUAD: bool>(&mut self) {
        let begins = self
            .parts
            .iter()
            .map(|parts| (parts & !(parts << 1)).count_ones());
        let most = position(u64::from(begins.sum::<u32>())) + 1;
        if self.words.len() < most {
            self.words.resize(most, Word::default());
        }
        let (lower, words) = (&mut self.lower[..], &mut self.words[..]);
        let (mut count, mut last, mut start, mut before) = (0, 0, 0, 0);
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
                let follows_text = |&byte: &u8| byte > b' ';
                if SQUAD
                    && lower.get(start.wrapping_sub(1)).is_some_and(follows_text)
                    // The last word is there even if it does not count.
                    && let Some(joined) = join(lower, &words[last], &run)
                {
                    words[last] = joined;
                    count = last + usize::from(!joined.is_article());
                } else {
                    words[count] = run;
                    last = count;
                    count += usize::from(!SQUAD || !run.is_article());
                }
                start = next_start();
            }
            before = parts >> 63;
        }
        self.count = count;
    }
}

/// Whether the SQuAD script keeps a byte.
fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() | !byte.is_ascii()
}

/// The last word with the run moved to its end, if there is only punctuation between them.
#[cold]
fn join(lower: &mut [u8], last: &Word, run: &Word) -> Option<Word> {
    let before = lower[..run.start]
        .iter()
        .rfind(|&&byte| is_part(byte) | (byte <= b' '))?;
    if !is_part(*before) {
        return None;
    }
    lower.copy_within(run.start..run.end, last.end);
    Some(Word::new(lower, last.start, last.end + run.end - run.start))
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
    /// One of the places of the word among the words.
    place: u32,
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

    /// Adds `more` to what is left of a word of the reference. Returns its number.
    #[expect(clippy::inline_always, reason = "a call takes as long as the look-up")]
    #[inline(always)]
    fn insert(&mut self, reference: &Text, place: usize, more: u64) -> usize {
        let word = &reference.words[place];
        let (at, is_known) = self.find(reference, reference, word);
        let slot = &mut self.slots[at];
        *slot = Slot {
            head: word.head,
            rest: word.rest,
            left: slot.left * u64::from(is_known) + more,
            place: symbol(place),
            round: self.round,
        };
        at
    }

    /// The slot of a word of `text`, or the free slot for it.
    #[expect(clippy::inline_always, reason = "a call takes as long as the look-up")]
    #[inline(always)]
    fn find(&self, reference: &Text, text: &Text, word: &Word) -> (usize, bool) {
        let (head, rest) = self.factors;
        let hash = word.head.wrapping_mul(head) ^ word.rest.wrapping_mul(rest);
        let mut at = position(hash >> self.shift);
        loop {
            let slot = &self.slots[at];
            let is_used = slot.round == self.round;
            let difference = (slot.head ^ word.head) | (slot.rest ^ word.rest);
            if is_used & ((difference != 0) | word.is_long()) {
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
fn is_equal(reference: &Text, slot: &Slot, text: &Text, word: &Word) -> bool {
    let known = &reference.words[position(u64::from(slot.place))];
    reference.lower[known.start..known.end] == text.lower[word.start..word.end]
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
