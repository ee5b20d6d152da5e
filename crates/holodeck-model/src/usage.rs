//! Token counts of a model call.

use std::{iter::Sum, ops::AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens of a model call. If the provider reports none, the `TokenUsage` is absent, not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens of the prompt, cached ones included.
    #[serde(alias = "input_tokens")]
    pub prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    #[serde(alias = "output_tokens")]
    pub completion_tokens: u64,
    /// The provider's total.
    pub total_tokens: u64,
    /// Prompt tokens that came from a cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens that were written to a cache.
    pub cache_creation_tokens: u64,
    /// Answer tokens spent on reasoning.
    pub reasoning_tokens: u64,
}

impl TokenUsage {
    /// Prompt and completion, with their sum as the total.
    pub fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
            ..Self::default()
        }
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_creation_tokens = self
            .cache_creation_tokens
            .saturating_add(other.cache_creation_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

impl Sum for TokenUsage {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |mut total, usage| {
            total += usage;
            total
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_names_of_the_older_contract() {
        let usage: TokenUsage =
            serde_json::from_str(r#"{"input_tokens": 450, "output_tokens": 180, "total_tokens": 630}"#)
                .unwrap();
        assert_eq!(usage, TokenUsage::new(450, 180));
    }
}
