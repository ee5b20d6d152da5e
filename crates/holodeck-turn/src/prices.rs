//! Computes costs from token usage and price lists. Without a known price there is no cost, never zero.

use std::{collections::BTreeMap, path::Path};

use holodeck_model::{TokenUsage, io_reason, read_text_input};
use serde::Deserialize;

/// The prices that ship with this version.
const EMBEDDED: &str = include_str!("../data/prices.json");

/// The maximum size of a price list.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Token prices in US dollars per million. The list has a date because prices change.
#[derive(Clone, Debug)]
pub struct Prices {
    as_of: String,
    models: BTreeMap<String, Price>,
}

/// The prices of one model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: f64,
    output: f64,
    /// Defaults to `input`, so that a cost is never reported too low.
    #[serde(default)]
    cached_input: Option<f64>,
    /// Prompt tokens that are written to a cache. Defaults to `input`.
    #[serde(default)]
    cache_write: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    as_of: String,
    /// The sources of the prices, for readers of the file.
    #[serde(default, rename = "sources")]
    _sources: Vec<String>,
    models: BTreeMap<String, Price>,
}

/// Why a price list can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The file can't be read.
    #[error("price list `{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The file does not have the expected format.
    #[error(
        "price list `{path}`: {reason}; expected {{\"as_of\": \"2026-11-21\", \"models\": {{\"name\": {{\"input\": 1.0, \"output\": 2.0}}}}}} in US dollars per million tokens"
    )]
    Malformed {
        /// The file.
        path: String,
        /// The problem.
        reason: String,
    },
}

impl Prices {
    /// The embedded list.
    pub fn embedded() -> Self {
        // A test checks the embedded file; if it were invalid, every price would be reported as unknown.
        serde_json::from_str::<File>(EMBEDDED).map_or_else(
            |_| Self {
                as_of: String::new(),
                models: BTreeMap::new(),
            },
            |file| Self {
                as_of: file.as_of,
                models: file.models,
            },
        )
    }

    /// Adds the prices of a user's list, which take precedence. A missing file changes nothing.
    pub fn overlay(mut self, path: &Path) -> Result<Self, PriceError> {
        let text = match read_text_input(path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(source) => {
                return Err(PriceError::Io {
                    path: path.display().to_string(),
                    source,
                });
            }
        };
        let malformed = |reason: String| PriceError::Malformed {
            path: path.display().to_string(),
            reason,
        };
        let file: File = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        for (name, price) in &file.models {
            let numbers = [
                Some(price.input),
                Some(price.output),
                price.cached_input,
                price.cache_write,
            ];
            if numbers
                .into_iter()
                .flatten()
                .any(|number| !number.is_finite() || number < 0.0)
            {
                return Err(malformed(format!("the price of `{name}` must be zero or more")));
            }
        }
        self.as_of = file.as_of;
        self.models.extend(file.models);
        Ok(self)
    }

    /// The date of the list.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// Whether the price of `model` is known.
    pub fn has_price(&self, model: &str) -> bool {
        self.find(model).is_some()
    }

    /// The cost of `usage`, if the price of `model` is known.
    pub fn cost(&self, model: &str, usage: &TokenUsage) -> Option<f64> {
        let price = self.find(model)?;
        let cached = usage.cache_read_tokens.min(usage.prompt_tokens);
        let written = usage.cache_creation_tokens.min(usage.prompt_tokens - cached);
        let fresh = usage.prompt_tokens - cached - written;
        let millionths = fresh as f64 * price.input
            + cached as f64 * price.cached_input.unwrap_or(price.input)
            + written as f64 * price.cache_write.unwrap_or(price.input)
            + usage.completion_tokens as f64 * price.output;
        Some(millionths / 1e6)
    }

    /// A dated version has the price of its model. Any other suffix is another model: a guess that is too low would
    /// exceed a budget.
    fn find(&self, model: &str) -> Option<Price> {
        let mut name = model;
        loop {
            if let Some(price) = self.models.get(name) {
                return Some(*price);
            }
            let (shorter, suffix) = name.rsplit_once('-')?;
            // A single digit is a version: `claude-opus-4-9` is not `claude-opus-4`.
            let is_date = suffix.len() > 1 && suffix.chars().all(|c| c.is_ascii_digit());
            if suffix != "latest" && !is_date {
                return None;
            }
            name = shorter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: u64, cached: u64, completion: u64) -> TokenUsage {
        TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            cache_read_tokens: cached,
            ..TokenUsage::default()
        }
    }

    #[test]
    fn the_embedded_list_is_valid_and_dated() {
        let prices = Prices::embedded();
        assert_eq!(prices.as_of().len(), "2026-11-21".len());
        assert!(prices.has_price("gpt-4o"));
    }

    #[test]
    fn current_claude_models_have_prices() {
        let prices = Prices::embedded();
        let million = usage(1_000_000, 0, 0);
        for (model, input) in [
            ("claude-opus-4-5", 5.0),
            ("claude-opus-4-5-20251101", 5.0),
            ("claude-opus-4-1-20250805", 15.0),
            ("claude-opus-5-5", 4.0),
            ("claude-sonnet-4-5-20250929", 3.0),
            ("claude-sonnet-5-5", 2.0),
            ("claude-haiku-4-5", 1.0),
            ("claude-haiku-5-5", 0.5),
        ] {
            assert_eq!(prices.cost(model, &million), Some(input), "{model}");
        }
        for unknown in ["claude-opus-4-9", "claude-sonnet-9", "claude-opus-4-5-fast"] {
            assert_eq!(prices.cost(unknown, &million), None, "{unknown}");
        }
        let written = TokenUsage {
            cache_creation_tokens: 1_000_000,
            ..million
        };
        assert_eq!(prices.cost("claude-sonnet-4-5", &written), Some(6.0));
        let read = usage(1_000_000, 1_000_000, 0);
        assert_eq!(prices.cost("claude-sonnet-5-5", &read), Some(0.1));
    }

    #[test]
    fn dated_names_cost_what_their_model_costs_and_others_are_unknown() {
        let prices = Prices::embedded();
        let million = usage(1_000_000, 0, 0);
        assert_eq!(
            prices.cost("gpt-4o-2024-08-06", &million),
            prices.cost("gpt-4o", &million)
        );
        assert_ne!(
            prices.cost("gpt-4o-mini", &million),
            prices.cost("gpt-4o", &million)
        );
        assert_eq!(prices.cost("SmolLM2-135M-Instruct", &million), None);
        assert_eq!(prices.cost("o1-pro", &million), None);
        assert_eq!(
            prices.cost("gpt-4o-latest", &million),
            prices.cost("gpt-4o", &million)
        );
    }

    #[test]
    fn a_users_list_overrides_the_embedded_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prices.json");
        std::fs::write(
            &path,
            r#"{"as_of": "2030-01-01", "models": {"mine": {"input": 2, "output": 4, "cached_input": 1}}}"#,
        )
        .unwrap();
        let prices = Prices::embedded().overlay(&path).unwrap();
        assert_eq!(
            prices.cost("mine", &usage(1_000_000, 500_000, 1_000_000)),
            Some(5.5)
        );
        assert!(prices.has_price("gpt-4o"));
        assert_eq!(prices.as_of(), "2030-01-01");
        std::fs::write(
            &path,
            r#"{"as_of": "x", "models": {"mine": {"input": -2, "output": 4}}}"#,
        )
        .unwrap();
        assert!(
            Prices::embedded()
                .overlay(&path)
                .unwrap_err()
                .to_string()
                .contains("`mine`")
        );
    }
}
