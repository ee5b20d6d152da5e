//! An embedder without a model, deterministic and offline, for trying and testing retrieval.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use async_trait::async_trait;

use super::{Embedder, EmbedderId, Purpose};
use crate::RetrievalError;

/// An embedder without a model: texts that share words are near each other; synonyms are not.
///
/// Deterministic on every machine, offline and without a key, for trying and testing retrieval. Words, word pairs and
/// word pieces are hashed into the positions of a vector (feature hashing).
#[derive(Clone, Debug)]
pub struct HashEmbedder {
    id: EmbedderId,
    dimensions: usize,
}

/// Its name in the YAML and in an index.
const PROVIDER: &str = "hash";
/// Increased whenever the vector of any text changes: indexes of two versions must not mix.
const MODEL: &str = "words-1";

const WORD: f32 = 1.0;
/// Words of one to three letters are mostly function words in most languages.
const SHORT_WORD: f32 = 0.25;
const PAIR: f32 = 0.5;
/// Makes `refund` similar to `refunds`.
const PIECE: f32 = 0.2;
const PIECE_LENGTH: usize = 4;
/// For scripts in which one letter carries as much as a syllable or a word.
const DENSE_PIECE_LENGTH: usize = 2;
/// Longer runs of letters are not words (base64, or a script without spaces, which pieces cover).
const LONGEST_WORD: usize = 64;

impl HashEmbedder {
    /// Default length of its vectors.
    pub const DIMENSIONS: usize = 384;

    /// Makes vectors of `dimensions`, at least one.
    pub fn new(dimensions: usize) -> Self {
        let dimensions = dimensions.max(1);
        Self {
            id: EmbedderId {
                provider: PROVIDER.to_owned(),
                model: MODEL.to_owned(),
                dimensions: Some(dimensions),
            },
            dimensions,
        }
    }

    /// The vector of a text; of length 1 for every text, including the empty one.
    pub fn vector(&self, text: &str) -> Vec<f32> {
        let mut features = Features::default();
        features.read(text);
        let mut vector = vec![0.0_f32; self.dimensions];
        for (hash, weight) in features.list {
            self.add(&mut vector, hash, weight);
        }
        // A text without words, or whose features cancel out, is its own single feature.
        if !normalise(&mut vector) {
            self.add(&mut vector, hash(*b"text", text.as_bytes()), 1.0);
        }
        vector
    }

    fn add(&self, vector: &mut [f32], hash: u64, weight: f32) {
        // The upper half selects the position, one bit of the lower half the sign.
        let place = ((hash >> 32) * self.dimensions as u64) >> 32;
        let place = usize::try_from(place).unwrap_or_default();
        if let Some(number) = vector.get_mut(place) {
            *number += if hash & 1 == 0 { weight } else { -weight };
        }
    }
}

impl Default for HashEmbedder {
    fn default() -> Self {
        Self::new(Self::DIMENSIONS)
    }
}

#[async_trait]
impl Embedder for HashEmbedder {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    async fn embed(&self, texts: &[&str], _purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

/// Hashes of the features of a text with their weights, in order of first occurrence.
#[derive(Default)]
struct Features {
    list: Vec<(u64, f32)>,
    counts: HashMap<u64, (usize, u32), Identity>,
}

impl Features {
    fn read(&mut self, text: &str) {
        let mut word = String::new();
        let mut letters = 0;
        let mut before = None;
        for c in text.chars() {
            if c.is_alphanumeric() {
                if letters < LONGEST_WORD {
                    word.extend(c.to_lowercase());
                    letters += 1;
                    continue;
                }
            } else if word.is_empty() {
                continue;
            }
            before = Some(self.word(&word, before));
            word.clear();
            letters = 0;
            if c.is_alphanumeric() {
                word.extend(c.to_lowercase());
                letters = 1;
            }
        }
        if !word.is_empty() {
            self.word(&word, before);
        }
    }

    /// Adds a word; `before` is the hash of the preceding word.
    fn word(&mut self, word: &str, before: Option<u64>) -> u64 {
        let own = hash(*b"word", word.as_bytes());
        let (weight, piece) = if word.chars().any(is_dense) {
            // A dense run is a phrase; its pieces are the words.
            (PIECE, Some((DENSE_PIECE_LENGTH, WORD)))
        } else if word.chars().nth(3).is_none() && word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            (SHORT_WORD, None)
        } else {
            (WORD, Some((PIECE_LENGTH, PIECE)))
        };
        self.add(own, weight);
        if let Some(before) = before {
            self.add(mix(before.rotate_left(17) ^ own), weight * PAIR);
        }
        if let Some((length, weight)) = piece {
            self.pieces(word, length, weight);
        }
        own
    }

    /// Letter n-grams of the word, with markers at both ends.
    fn pieces(&mut self, word: &str, length: usize, weight: f32) {
        let marked = format!("\u{2}{word}\u{3}");
        let starts: Vec<usize> = marked
            .char_indices()
            .map(|(at, _)| at)
            .chain([marked.len()])
            .collect();
        for ends in starts.windows(length + 1) {
            if let (Some(&start), Some(&end)) = (ends.first(), ends.last())
                && let Some(piece) = marked.as_bytes().get(start..end)
            {
                self.add(hash(*b"part", piece), weight);
            }
        }
    }

    /// Repeated features count less and less.
    fn add(&mut self, hash: u64, weight: f32) {
        match self.counts.entry(hash) {
            Slot::Vacant(slot) => {
                slot.insert((self.list.len(), 1));
                self.list.push((hash, weight));
            }
            Slot::Occupied(mut slot) => {
                let (at, count) = slot.get_mut();
                *count += 1;
                if let Some((_, sum)) = self.list.get_mut(*at) {
                    *sum += weight / *count as f32;
                }
            }
        }
    }
}

/// Letters of Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean.
fn is_dense(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2ffff}')
}

/// FNV-1a over a kind and bytes, then mixed, since FNV's upper bits are weak for short input.
fn hash(kind: [u8; 4], bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in kind.iter().chain(bytes) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(hash)
}

fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Keys are already hashes.
#[derive(Clone, Copy, Default)]
struct Identity;

impl std::hash::BuildHasher for Identity {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

struct IdentityHasher(u64);

impl std::hash::Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Scales to length 1; returns false and changes nothing if the vector has no direction.
pub(super) fn normalise(vector: &mut [f32]) -> bool {
    let length = vector
        .iter()
        .map(|number| f64::from(*number).powi(2))
        .sum::<f64>()
        .sqrt();
    if !length.is_finite() || length < 1e-12 {
        return false;
    }
    for number in vector {
        #[expect(clippy::cast_possible_truncation, reason = "between -1 and 1")]
        {
            *number = (f64::from(*number) / length) as f32;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn similarity(a: &str, b: &str) -> f32 {
        let embedder = HashEmbedder::default();
        dot(&embedder.vector(a), &embedder.vector(b))
    }

    #[test]
    fn texts_with_common_words_are_nearer_than_others() {
        let passage = "Refunds are granted within 30 days of delivery if the product is unused.";
        let others = [
            "The office is closed on public holidays and on the last Friday of the year.",
            "Employees accrue vacation days with each month of service.",
            "What is the capital of the country?",
        ];
        for query in [
            "what is the refund policy after delivery",
            "refunds",
            "unused product",
        ] {
            let right = similarity(query, passage);
            for other in others {
                assert!(right > similarity(query, other) + 0.05, "{query}: {other}");
            }
        }
        assert!(similarity("das Rückgaberecht", "Rückgaberechte") > 0.4);
        assert!(similarity("返金ポリシーについて", "返金ポリシー") > 0.3);
    }

    /// An index built elsewhere, or by an earlier release, must stay valid.
    #[test]
    fn a_text_has_one_vector_for_ever() {
        let vector = HashEmbedder::new(8).vector("HoloDeck finds passages, Größe 42.");
        let shown: Vec<String> = vector.iter().map(|number| format!("{number:.4}")).collect();
        insta::assert_snapshot!(shown.join(" "));
    }

    #[tokio::test]
    async fn vectors_come_in_order_with_the_dimensions_asked_for() {
        let embedder = HashEmbedder::new(16);
        let vectors = embedder.embed(&["one", "two"], Purpose::Query).await.unwrap();
        assert_eq!(vectors, [embedder.vector("one"), embedder.vector("two")]);
        assert!(vectors.iter().all(|vector| vector.len() == 16));
        assert_eq!(embedder.id().to_string(), "hash words-1 (16 dimensions)");
    }

    proptest! {
        #[test]
        fn no_text_gets_a_vector_without_length(text in any::<String>(), dimensions in 1_usize..40) {
            let vector = HashEmbedder::new(dimensions).vector(&text);
            prop_assert_eq!(vector.len(), dimensions);
            prop_assert!((dot(&vector, &vector) - 1.0).abs() < 1e-4);
        }

        #[test]
        fn letter_case_is_no_difference(text in "[a-zA-Z ]{0,80}") {
            prop_assert!(similarity(&text.to_uppercase(), &text.to_lowercase()) > 0.9999 || text.trim().is_empty());
        }
    }
}
