//! Counts the n-grams that two sequences share, in time linear in their length.
//!
//! Words (or characters) are first replaced by small numbers; an n-gram is then the pair of the number of its first n−1
//! symbols and the number of its last one, so each order costs one look-up per position.
#![allow(
    clippy::indexing_slicing,
    reason = "index arithmetic over tables whose size is a power of two"
)]

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The number of a symbol that does not occur in the reference.
pub(crate) const UNKNOWN: u32 = u32::MAX;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Differs between processes, so that no text can be constructed to collide.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(FACTOR));

pub(super) fn seed() -> u64 {
    *SEED
}

/// Numbers words, starting at 0, in the order of their first occurrence.
pub(crate) struct Vocabulary<'t> {
    slots: Vec<u32>,
    words: Vec<&'t [u8]>,
    seed: u64,
}

impl<'t> Vocabulary<'t> {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![UNKNOWN; 64],
            words: Vec::with_capacity(32),
            seed: seed(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.slots.fill(UNKNOWN);
        self.words.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The number of `word`, a new one if it is new.
    pub(crate) fn insert(&mut self, word: &'t [u8]) -> u32 {
        let slot = match self.find(word) {
            Ok(number) => return number,
            Err(slot) => slot,
        };
        let number = symbol(self.words.len());
        self.words.push(word);
        self.slots[slot] = number;
        if self.words.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    /// The number of `word`, [`UNKNOWN`] if it has none.
    pub(crate) fn get(&self, word: &[u8]) -> u32 {
        self.find(word).unwrap_or(UNKNOWN)
    }

    fn find(&self, word: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = position(hash(word, self.seed)) & mask;
        loop {
            let number = self.slots[slot];
            if number == UNKNOWN {
                return Err(slot);
            }
            if self.words[position(u64::from(number))] == word {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots.clear();
        self.slots.resize(mask + 1, UNKNOWN);
        for (number, word) in self.words.iter().enumerate() {
            let mut slot = position(hash(word, self.seed)) & mask;
            while self.slots[slot] != UNKNOWN {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = symbol(number);
        }
    }
}

pub(super) fn hash(word: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (word.len() as u64).wrapping_mul(FACTOR);
    let mut rest = word;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        hash = mix(hash ^ u64::from_le_bytes(*chunk));
        rest = after;
    }
    // The last bytes in one or two reads, which may overlap: the length is in the hash already.
    let tail = match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
        (Some(head), Some(tail), _) => {
            u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail))
        }
        (_, _, [first, .., last]) => {
            u64::from(*first) << 16 | u64::from(rest[rest.len() / 2]) << 8 | u64::from(*last)
        }
        (_, _, [only]) => u64::from(*only),
        _ => return hash,
    };
    mix(hash ^ tail)
}

fn mix(word: u64) -> u64 {
    let product = word.wrapping_mul(FACTOR);
    product ^ product >> 32
}

pub(super) fn position(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
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

/// The overlap for the orders 1 to `N`. Symbols of `reference` are less than `symbols`, those of `prediction` too or
/// [`UNKNOWN`].
pub(crate) fn overlaps<const N: usize>(
    prediction: &[u32],
    reference: &[u32],
    symbols: usize,
) -> [Overlap; N] {
    let mut result = [Overlap::default(); N];
    for (order, overlap) in (1..).zip(&mut result) {
        overlap.prediction = (prediction.len() + 1).saturating_sub(order);
        overlap.reference = (reference.len() + 1).saturating_sub(order);
    }
    if let Some(words) = result.first_mut() {
        words.shared = shared_symbols(prediction, reference, symbols);
    }
    if N < 2 {
        return result;
    }
    let mut table = PairTable::new(reference.len());
    let mut ours = prediction.to_vec();
    let mut theirs = reference.to_vec();
    for (last, overlap) in (1..).zip(result.iter_mut().skip(1)) {
        let (Some(our_last), Some(their_last)) = (prediction.get(last..), reference.get(last..)) else {
            break;
        };
        table.start_round();
        for (prefix, &symbol) in theirs.iter_mut().zip(their_last) {
            *prefix = table.add(*prefix, symbol);
        }
        let mut any = false;
        for (prefix, &symbol) in ours.iter_mut().zip(our_last) {
            if *prefix == UNKNOWN {
                continue;
            }
            let (number, shared) = if symbol == UNKNOWN {
                (UNKNOWN, false)
            } else {
                table.take(*prefix, symbol)
            };
            *prefix = number;
            any |= number != UNKNOWN;
            overlap.shared += usize::from(shared);
        }
        if !any {
            break;
        }
    }
    result
}

fn shared_symbols(prediction: &[u32], reference: &[u32], symbols: usize) -> usize {
    let mut left = vec![0_u32; symbols];
    for &symbol in reference {
        left[symbol as usize] += 1;
    }
    prediction
        .iter()
        .filter(|&&symbol| match left.get_mut(symbol as usize) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        })
        .count()
}

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    number: u32,
    /// How often the pair can still be shared, and in the low bits the round that wrote the slot.
    left: u32,
}

const ROUND_BITS: u32 = 4;

/// Numbers pairs. A new round discards the pairs of the previous one without clearing the slots.
#[derive(Default)]
pub(super) struct PairTable {
    slots: Vec<Slot>,
    shift: u32,
    round: u32,
    next: u32,
}

impl PairTable {
    fn new(entries: usize) -> Self {
        let mut table = Self::default();
        table.reset(entries);
        table.round = 0;
        table
    }

    /// Empties the table for the first round with this number of pairs.
    pub(super) fn reset(&mut self, entries: usize) {
        let size = (entries * 2).next_power_of_two().max(2);
        self.slots.clear();
        self.slots.resize(
            size,
            Slot {
                key: 0,
                number: 0,
                left: 0,
            },
        );
        self.shift = 64 - size.trailing_zeros();
        self.round = 1;
        self.next = 0;
    }

    fn start_round(&mut self) {
        self.round += 1;
        self.next = 0;
    }

    pub(super) fn add(&mut self, prefix: u32, symbol: u32) -> u32 {
        let (slot, free) = self.find(prefix, symbol);
        if !free {
            let slot = &mut self.slots[slot];
            slot.left += 1 << ROUND_BITS;
            return slot.number;
        }
        let number = self.next;
        self.next += 1;
        self.slots[slot] = Slot {
            key: key(prefix, symbol),
            number,
            left: 1 << ROUND_BITS | self.round,
        };
        number
    }

    pub(super) fn take(&mut self, prefix: u32, symbol: u32) -> (u32, bool) {
        let (slot, free) = self.find(prefix, symbol);
        if free {
            return (UNKNOWN, false);
        }
        let slot = &mut self.slots[slot];
        let shared = slot.left >> ROUND_BITS > 0;
        if shared {
            slot.left -= 1 << ROUND_BITS;
        }
        (slot.number, shared)
    }

    /// The slot of the pair, or the free slot for it.
    fn find(&self, prefix: u32, symbol: u32) -> (usize, bool) {
        let key = key(prefix, symbol);
        let mask = self.slots.len() - 1;
        let mut at = position(key.wrapping_mul(FACTOR) >> self.shift) & mask;
        loop {
            let slot = &self.slots[at];
            if slot.left & ((1 << ROUND_BITS) - 1) != self.round {
                return (at, true);
            }
            if slot.key == key {
                return (at, false);
            }
            at = (at + 1) & mask;
        }
    }
}

fn key(prefix: u32, symbol: u32) -> u64 {
    u64::from(prefix) << 32 | u64::from(symbol)
}
