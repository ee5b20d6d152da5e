//! Metrics over what an agent answered: deterministic checks, text metrics, tool-call expectations.
//!
//! A score is in 0..=1 and never NaN; what cannot be computed is an error, never 0.

pub mod nlp;

/// The licence of the WordNet data that is compiled in for METEOR; it must travel with every copy.
pub const WORDNET_LICENSE: &str = include_str!("../data/wordnet/LICENSE.txt");
