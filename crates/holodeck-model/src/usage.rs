//! The costs of models: tokens, calls and prices.
//!
//! [`Spent`] is the only sum of them, so that a part that is unknown can never count as nothing.

use std::{
    iter::Sum,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

/// Tokens of a model call. If the provider reports none, the `TokenUsage` is absent, not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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

/// The cost of model calls. A sum of which a part is unknown is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Spent {
    /// Model calls made.
    #[serde(rename = "model_calls")]
    pub calls: u64,
    /// Their tokens; absent if unknown, or if nothing was called.
    #[serde(default, rename = "usage", skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
    /// Their price in US dollars; absent if unknown, or if nothing was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Spent {
    /// Whether no model was called and nothing else is known to have been used.
    pub fn is_nothing(&self) -> bool {
        self.calls == 0 && self.tokens.is_none() && self.cost_usd.is_none()
    }

    /// The cost, if anything was spent.
    pub fn some(self) -> Option<Self> {
        (!self.is_nothing()).then_some(self)
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        if more.is_nothing() {
            return;
        }
        if self.is_nothing() {
            *self = more;
            return;
        }
        self.calls = self.calls.saturating_add(more.calls);
        self.tokens = self.tokens.zip(more.tokens).map(|(mut sum, more)| {
            sum += more;
            sum
        });
        self.cost_usd = self.cost_usd.zip(more.cost_usd).map(|(sum, more)| sum + more);
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(mut self, more: Self) -> Self {
        self += more;
        self
    }
}

impl Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}

impl From<UsageMetadata> for Spent {
    /// At least one call was made, so that what it does not know is unknown.
    fn from(used: UsageMetadata) -> Self {
        Self {
            calls: 1,
            tokens: used.usage,
            cost_usd: used.cost_usd,
        }
    }
}

impl From<Spent> for UsageMetadata {
    fn from(spent: Spent) -> Self {
        if spent.is_nothing() {
            return Self {
                usage: Some(TokenUsage::default()),
                cost_usd: Some(0.0),
            };
        }
        Self {
            usage: spent.tokens,
            cost_usd: spent.cost_usd,
        }
    }
}

/// The tokens, cost and calls of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageMetadata {
    /// Tokens; absent if unknown.
    pub usage: Option<TokenUsage>,
    /// US dollars; absent if unknown.
    pub cost_usd: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every order of parts, of which some are known, unknown or nothing.
    #[test]
    fn a_sum_is_known_only_if_every_part_is() {
        let known = |calls: u64| Spent {
            calls,
            tokens: Some(TokenUsage::new(calls, 10)),
            cost_usd: Some(0.25),
        };
        let unknown = Spent {
            calls: 1,
            tokens: None,
            cost_usd: None,
        };
        let unpriced = Spent {
            cost_usd: None,
            ..known(4)
        };
        let parts = [Spent::default(), known(2), unknown, unpriced];
        for first in parts {
            for second in parts {
                for third in parts {
                    let all = [first, second, third];
                    let sum: Spent = all.into_iter().sum();
                    assert_eq!(sum.calls, all.iter().map(|part| part.calls).sum::<u64>());
                    let spending = || all.iter().filter(|part| !part.is_nothing());
                    let some = spending().count() > 0;
                    assert_eq!(
                        sum.tokens.is_some(),
                        some && spending().all(|part| part.tokens.is_some())
                    );
                    assert_eq!(
                        sum.cost_usd.is_some(),
                        some && spending().all(|part| part.cost_usd.is_some())
                    );
                    assert_eq!(third + (second + first), sum);
                }
            }
        }
    }

    /// Journals of earlier versions contain these names.
    #[test]
    fn what_was_spent_is_read_by_its_names_in_journals() {
        let text = r#"{"model_calls":2,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"cost_usd":0.5}"#;
        let spent: Spent = serde_json::from_str(text).unwrap();
        assert_eq!((spent.calls, spent.tokens), (2, Some(TokenUsage::new(1, 2))));
        let nothing: Spent = serde_json::from_str(r#"{"model_calls":0}"#).unwrap();
        assert!(nothing.is_nothing());
        assert_eq!(serde_json::to_string(&nothing).unwrap(), r#"{"model_calls":0}"#);
    }

    #[test]
    fn reads_the_names_of_the_older_contract() {
        let usage: TokenUsage =
            serde_json::from_str(r#"{"input_tokens": 450, "output_tokens": 180, "total_tokens": 630}"#)
                .unwrap();
        assert_eq!(usage, TokenUsage::new(450, 180));
    }
}
