//! The number of words of the answer.

use std::ops::RangeInclusive;

use holodeck_model::StandardMetric;

use super::{Answer, Check, Finding};
use crate::{MetricError, nlp::unicode};

/// The answer has a number of words between two limits.
pub(super) struct WordCount {
    range: RangeInclusive<u64>,
    limits: String,
    /// Whether scripts without spaces between words are counted by their characters.
    unicode: bool,
}

impl WordCount {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, String> {
        let limits = match (config.min, config.max) {
            (None, None) => return Err("`min` or `max` is missing".to_owned()),
            (Some(min), Some(max)) if min > max => {
                return Err(format!("`min` {min} is more than `max` {max}"));
            }
            (Some(min), Some(max)) if min == max => format!("{min}"),
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
        };
        Ok(Self {
            range: config.min.unwrap_or(0)..=config.max.unwrap_or(u64::MAX),
            limits,
            unicode: config.unicode,
        })
    }
}

impl Check for WordCount {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let text = answer.text()?;
        let mut count = text.split_whitespace().count();
        if self.unicode {
            count = 0;
            unicode::words(&text, |_| count += 1);
        }
        let words = if count == 1 { "word" } else { "words" };
        let fact = format!("the answer has {count} {words} (limit: {})", self.limits);
        Ok(if self.range.contains(&(count as u64)) {
            Finding::met(fact)
        } else {
            Finding::missed(fact)
        })
    }
}
