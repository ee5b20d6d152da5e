//! The answer is the expected number.

use holodeck_model::{Decimal, StandardMetric};

use super::text::list_alternatives;
use super::{Answer, Check, Expected, Finding};
use crate::MetricError;
use crate::json_text::quote;

/// The answer is the expected number, or one of them, within the tolerances.
pub(super) struct Numeric {
    expected: Expected,
    absolute: Decimal,
    relative: Decimal,
    config: StandardMetric,
}

impl Numeric {
    pub(super) fn new(expected: Expected, config: &StandardMetric) -> Result<Self, String> {
        let tolerance = |name: &str, number| {
            Decimal::from_f64(number).ok_or_else(|| format!("`{name}` is not a finite number"))
        };
        let check = Self {
            expected,
            absolute: tolerance("absolute_tolerance", config.absolute_tolerance)?,
            relative: tolerance("relative_tolerance", config.relative_tolerance)?,
            config: config.clone(),
        };
        if let Expected::Values(texts) = &check.expected {
            for text in texts {
                check
                    .parse(text)
                    .map_err(|problem| format!("`value` {problem}"))?;
            }
        }
        Ok(check)
    }

    fn parse(&self, text: &str) -> Result<Decimal, String> {
        let number = self.config.read_number(text);
        number.map_err(|why| format!("{} is not a number{why}", quote(text)))
    }

    fn is_near(&self, found: &Decimal, expected: &Decimal) -> bool {
        let distance = found.distance(expected);
        distance <= self.absolute || distance <= self.relative.times(expected).abs()
    }
}

impl Check for Numeric {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let numbers: Vec<Decimal> = expected
            .iter()
            .map(|text| self.parse(text))
            .collect::<Result<_, _>>()
            .map_err(|problem| MetricError::UnusableReference {
                metric: answer.metric.to_string(),
                problem,
            })?;
        let text = answer.text()?;
        let found = match self.parse(&text) {
            Ok(found) => found,
            // An answer that is not a number meets neither the check nor its negation.
            Err(problem) => {
                return Ok(Finding::not_applicable(format!(
                    "expected {}: {problem}",
                    list_alternatives(&expected)
                )));
            }
        };
        if numbers.iter().any(|number| self.is_near(&found, number)) {
            return Ok(Finding::met(format!("the answer is {}", quote(&text))));
        }
        Ok(Finding::missed(format!(
            "expected {}, got {}",
            list_alternatives(&expected),
            quote(&text)
        )))
    }
}
