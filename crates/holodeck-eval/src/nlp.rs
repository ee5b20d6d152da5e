//! Text metrics: pure functions of two texts, equal to the Python reference implementations.
//!
//! `docs/metrics.md` describes for each what it computes and which package it follows. Every score is in 0..=1 and
//! never NaN; an empty text scores 0 (except in exact matches).
//!
//! ```
//! use holodeck_eval::nlp::{self, Tokenizer};
//!
//! let score = nlp::bleu("The cat sat on the mat.", "The cat sat on the mat.", Tokenizer::Reference).score;
//! assert!(score > 0.999);
//! ```

mod bleu;
mod chrf;
mod exact;
mod lcs;
mod meteor;
mod ngrams;
mod porter;
mod python;
mod rouge;
mod sentences;
mod squad;
pub(crate) mod unicode;
mod word_tokens;
mod wordnet;

pub use bleu::{Bleu, bleu};
pub use chrf::{WordOrder, chrf};
pub use exact::{Normalization, equality, exact_match};
pub use meteor::{Meteor, meteor};
pub use rouge::{Rouge, RougeVariant, Stemming, rouge};
pub use squad::{squad_exact_match, squad_f1};
#[cfg(feature = "grading")]
pub(crate) use unicode::compose;
pub use wordnet::WORDNET_LICENSE;

/// How a text is split into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tokenizer {
    /// Exactly as in the reference implementation of the metric.
    #[default]
    Reference,
    /// By Unicode's classes after composing accents (NFC); a character of a script written without spaces is a word.
    Unicode,
}
