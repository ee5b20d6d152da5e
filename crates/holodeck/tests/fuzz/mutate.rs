//! Derives random inputs from seed inputs, reproducibly: the same seed gives the same inputs.

/// Random numbers that depend only on their seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or_default()
    }
}

/// Limits of number ranges.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "2",
    "0.5",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999",
    "1e308",
    "1e999",
];

/// Creates inputs by changing other inputs.
pub(crate) struct Mutator {
    random: Random,
    /// Tokens of the language that random changes would rarely produce.
    words: &'static [&'static str],
}

impl Mutator {
    pub(crate) fn new(random: Random, words: &'static [&'static str]) -> Self {
        Self { random, words }
    }

    /// A changed copy of one of the inputs.
    pub(crate) fn mutate(&mut self, inputs: &[Vec<u8>], largest: usize) -> Vec<u8> {
        let mut input = inputs[self.random.below(inputs.len())].clone();
        for _ in 0..=self.random.below(6) {
            self.change(&mut input, inputs);
        }
        input.truncate(largest);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.random.below(input.len() + 1);
        match self.random.below(10) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            1 => {
                let byte = [0, b'\t', b'\r', b'"', 0x7f, 0x80, 0xc3, 0xff][self.random.below(8)];
                input.insert(at, byte);
            }
            2 => {
                input.drain(at..self.choose_end(at, input.len()));
            }
            3 => input.truncate(at),
            4 | 5 => {
                let word = self.words[self.random.below(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            // Depth and repetition, which reveal recursion and quadratic time.
            6 => {
                let piece = input[at..self.choose_end(at, input.len().min(at + 40))].to_vec();
                let times = 1 << self.random.below(12);
                let repeated = piece.repeat(times.min(1 + 32_768 / piece.len().max(1)));
                input.splice(at..at, repeated);
            }
            7 => self.replace_number(input, at),
            8 => {
                let piece = input[at..self.choose_end(at, input.len())].to_vec();
                let to = self.random.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            _ => {
                let other = &inputs[self.random.below(inputs.len())];
                let from = self.random.below(other.len() + 1);
                let piece = other[from..self.choose_end(from, other.len())].to_vec();
                input.splice(at..at, piece);
            }
        }
    }

    /// Replaces the first number after `at`.
    fn replace_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let Some(start) = input[at..].iter().position(is_digit) else {
            return;
        };
        let start = at + start;
        let length = input[start..].iter().take_while(|byte| is_digit(byte)).count();
        let number = NUMBERS[self.random.below(NUMBERS.len())];
        input.splice(start..start + length, number.bytes());
    }

    /// Chooses the end of a piece from `start`; most pieces are short.
    fn choose_end(&mut self, start: usize, length: usize) -> usize {
        let rest = length.saturating_sub(start);
        let reach = if self.random.below(4) == 0 {
            rest
        } else {
            rest.min(16)
        };
        start + self.random.below(reach + 1)
    }
}
