//! Probabilities of the numbers that a model could have written, from which judges compute expected scores.

use serde::{Deserialize, Serialize};

/// The whole numbers that a model could have written as the value of one field of its answer, with their probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberOdds {
    /// The field.
    pub field: String,
    /// The number in the answer.
    pub value: u64,
    /// The numbers that are each one token, with their probabilities. A tokenizer that splits numbers also counts here
    /// the longer ones that begin with these digits.
    pub odds: Vec<(u64, f64)>,
}
