//! Reads token counts in the shapes that different servers use. Counts that do not add up are unknown, never zero.

use holodeck_backend_api::TokenUsage;
use serde_json::{Value, json};

use serde::Deserialize;

/// Token counts as a server reports them, in any of the usual shapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Usage(Value);

impl Usage {
    /// The counts; `None` unless both sides of the call are known or follow from the total.
    pub(crate) fn tokens(&self) -> Option<TokenUsage> {
        let prompt = self.count(&["prompt_tokens", "input_tokens"]);
        let completion = self.count(&["completion_tokens", "output_tokens"]);
        let total = self.count(&["total_tokens"]);
        let (prompt_tokens, completion_tokens) = match (prompt, completion, total) {
            (Some(prompt), Some(completion), _) => (prompt, completion),
            (Some(prompt), None, Some(total)) => (prompt, total.checked_sub(prompt)?),
            (None, Some(completion), Some(total)) => (total.checked_sub(completion)?, completion),
            _ => return None,
        };
        // Every request has a prompt.
        if prompt_tokens == 0 {
            return None;
        }
        let count_or_zero = |paths: &[&str]| self.count(paths).unwrap_or(0);
        let reasoning_tokens = count_or_zero(&["completion_tokens_details.reasoning_tokens"]);
        // Some servers count reasoning beside the completion, and the total shows it.
        let is_apart = total
            == Some(
                prompt_tokens
                    .saturating_add(completion_tokens)
                    .saturating_add(reasoning_tokens),
            );
        let completion_tokens = if is_apart {
            completion_tokens.saturating_add(reasoning_tokens)
        } else {
            completion_tokens
        };
        Some(TokenUsage {
            prompt_tokens,
            completion_tokens,
            total_tokens: total.unwrap_or_else(|| prompt_tokens.saturating_add(completion_tokens)),
            cache_read_tokens: count_or_zero(&[
                "prompt_tokens_details.cached_tokens",
                "prompt_cache_hit_tokens",
            ]),
            cache_creation_tokens: count_or_zero(&["prompt_tokens_details.cache_creation_tokens"]),
            reasoning_tokens,
        })
    }

    /// Whether a count is not zero: some servers end with counts of nothing.
    pub(crate) fn counts_something(&self) -> bool {
        self.tokens().is_some_and(|tokens| tokens.total_tokens > 0)
    }

    fn count(&self, paths: &[&str]) -> Option<u64> {
        let at = |path: &&str| path.split('.').try_fold(&self.0, |value, key| value.get(key));
        let mut values = paths.iter().filter_map(at);
        values.find_map(|value| value.as_u64().or_else(|| whole(value.as_f64()?)))
    }
}

/// Counts beside the times of an answer, as llama.cpp reports them without being asked.
#[derive(Debug, Deserialize)]
pub(crate) struct Timings {
    #[serde(rename = "prompt_n")]
    prompt: u64,
    /// The tokens of the prompt that were known. Older servers do not report them, and then the prompt is unknown.
    #[serde(rename = "cache_n")]
    cached: u64,
    #[serde(rename = "predicted_n")]
    predicted: u64,
}

impl Timings {
    pub(crate) fn usage(&self) -> Usage {
        Usage(json!({
            "prompt_tokens": self.prompt.saturating_add(self.cached),
            "completion_tokens": self.predicted,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }))
    }
}

/// Some servers count in floating point.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in range"
)]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn counts_in_the_shapes_servers_use() {
        let full = json!({
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": null},
            "completion_tokens_details": {"reasoning_tokens": 3},
        });
        let expected = TokenUsage {
            cache_read_tokens: 4,
            reasoning_tokens: 3,
            ..TokenUsage::new(10, 5)
        };
        assert_eq!(Usage(full).tokens(), Some(expected));
        let apart = json!({
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 18,
            "completion_tokens_details": {"reasoning_tokens": 3},
        });
        let expected = TokenUsage {
            reasoning_tokens: 3,
            ..TokenUsage::new(10, 8)
        };
        assert_eq!(Usage(apart).tokens(), Some(expected));
        for (value, expected) in [
            (
                json!({"prompt_tokens": 1, "completion_tokens": 2}),
                Some((1, 2, 3)),
            ),
            (
                json!({"input_tokens": 1.0, "output_tokens": 2.0}),
                Some((1, 2, 3)),
            ),
            (json!({"prompt_tokens": 1, "total_tokens": 3}), Some((1, 2, 3))),
            (
                json!({"completion_tokens": 2, "total_tokens": 3}),
                Some((1, 2, 3)),
            ),
            (json!({"prompt_tokens": 0, "completion_tokens": 0}), None),
            (
                json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 1500}),
                None,
            ),
            (json!({"prompt_tokens": 0, "completion_tokens": 7}), None),
            (json!({"prompt_tokens": 10, "total_tokens": 5}), None),
            (json!({"completion_tokens": 10, "total_tokens": 5}), None),
            (json!({"total_tokens": 3}), None),
            (json!({"prompt_tokens": 3}), None),
            (json!({"prompt_tokens": "many", "completion_tokens": -1}), None),
            (json!({}), None),
            (json!("n/a"), None),
        ] {
            let tokens = Usage(value).tokens();
            let found =
                tokens.map(|usage| (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens));
            assert_eq!(found, expected);
        }
    }
}
