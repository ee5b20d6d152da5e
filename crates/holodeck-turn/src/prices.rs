use std::{collections::BTreeMap, path::Path};

use holodeck_model::{TokenUsage, read_text_input};
use serde::Deserialize;

/// The prices that ship with this version.
const EMBEDDED: &str = include_str!("../data/prices.json");

/// The longest list that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What tokens cost, in US dollars per million. Dated: a price list is true on a day.
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
    /// Absent: as `input`, so that a cost is never told too low.
    #[serde(default)]
    cached_input: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    as_of: String,
    models: BTreeMap<String, Price>,
}

/// Why a price list can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// It can't be read.
    #[error("price list `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error(
        "price list `{path}`: {reason}; expected {{\"as_of\": \"2026-11-21\", \"models\": {{\"name\": {{\"input\": 1.0, \"output\": 2.0}}}}}} in US dollars per million tokens"
    )]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

impl Prices {
    /// The embedded list.
    pub fn embedded() -> Self {
        // The embedded file is checked by a test; without it every price is unknown, which is said as such.
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

    /// Lays a user's list over this one. A list that is not there changes nothing.
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
            let numbers = [Some(price.input), Some(price.output), price.cached_input];
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

    /// The day the list is of.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// Whether the price of `model` is known.
    pub fn knows(&self, model: &str) -> bool {
        self.find(model).is_some()
    }

    /// What `usage` costs, if the price of `model` is known.
    pub fn cost(&self, model: &str, usage: &TokenUsage) -> Option<f64> {
        let price = self.find(model)?;
        let cached = usage.cache_read_tokens.min(usage.prompt_tokens);
        let fresh = usage.prompt_tokens - cached;
        let cached_price = price.cached_input.unwrap_or(price.input);
        let millionths = fresh as f64 * price.input
            + cached as f64 * cached_price
            + usage.completion_tokens as f64 * price.output;
        Some(millionths / 1e6)
    }

    /// A dated version costs what its model costs. Any other suffix is another model: guessing low would break a
    /// budget's promise.
    fn find(&self, model: &str) -> Option<Price> {
        let mut name = model;
        loop {
            if let Some(price) = self.models.get(name) {
                return Some(*price);
            }
            let (shorter, suffix) = name.rsplit_once('-')?;
            if suffix != "latest" && !suffix.chars().all(|c| c.is_ascii_digit()) {
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
    fn the_embedded_list_reads_and_is_dated() {
        let prices = Prices::embedded();
        assert_eq!(prices.as_of().len(), "2026-11-21".len());
        assert!(prices.knows("gpt-4o"));
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
    fn a_users_list_lies_over_the_embedded_one() {
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
        assert!(prices.knows("gpt-4o"));
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
