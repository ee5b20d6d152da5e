//! The answer is within an edit distance of the expected text.
#![allow(clippy::indexing_slicing, reason = "a row of the distance table")]

use holodeck_model::StandardMetric;

use super::text::list_alternatives;
use super::{Answer, Check, Expected, Finding};
use crate::MetricError;
use crate::json_text::quote;
use crate::nlp::Normalization;

/// Texts whose lengths multiply to more than this are compared only up to the allowed distance.
const FULL_TABLE: usize = 16_000_000;

/// Levenshtein distance to the expected text, or to the nearest of them, in characters.
pub(super) struct Levenshtein {
    expected: Expected,
    options: Normalization,
    max: usize,
}

impl Levenshtein {
    pub(super) fn new(
        expected: Expected,
        options: Normalization,
        config: &StandardMetric,
    ) -> Result<Self, String> {
        let max = config.max_distance.ok_or("`max_distance` is missing")?;
        Ok(Self {
            expected,
            options,
            max: usize::try_from(max).unwrap_or(usize::MAX),
        })
    }
}

impl Check for Levenshtein {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let expected = self.expected.texts(answer)?;
        let original = answer.text()?;
        let text: Vec<char> = self.options.fold_text(&original).chars().collect();
        let mut nearest: Option<usize> = None;
        let mut score: f64 = 0.0;
        for expected in &expected {
            let expected: Vec<char> = self.options.fold_text(expected).chars().collect();
            let longest = text.len().max(expected.len());
            let limit = if text.len().saturating_mul(expected.len()) <= FULL_TABLE {
                longest
            } else {
                self.max
            };
            if let Some(distance) = distance(&text, &expected, limit) {
                nearest = Some(nearest.map_or(distance, |nearest| nearest.min(distance)));
                // One division, whose result is the nearest double: 1 - 0.9 is less than 0.1.
                let longest = longest.max(1);
                score = score.max(longest.saturating_sub(distance) as f64 / longest as f64);
            }
        }
        let met = nearest.is_some_and(|nearest| nearest <= self.max);
        let edits = nearest.map_or_else(
            || format!("more than {}", self.max),
            |nearest| nearest.to_string(),
        );
        let fact = format!(
            "{} is {edits} edits away from {}, the limit is {}",
            quote(&original),
            list_alternatives(&expected),
            self.max
        );
        Ok(Finding {
            met,
            score,
            fact,
            applies: true,
        })
    }
}

/// The distance, if it is at most `limit`. Only the diagonal band that can contain such a distance is computed.
fn distance(a: &[char], b: &[char], limit: usize) -> Option<usize> {
    let (a, b) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if b.len() - a.len() > limit {
        return None;
    }
    let limit = limit.min(b.len());
    let far = limit + 1;
    // Row by row over `a`; an entry outside the band exceeds the limit.
    let mut row: Vec<usize> = (0..=b.len())
        .map(|column| if column > limit { far } else { column })
        .collect();
    for (at, c) in (1_usize..).zip(a) {
        let first = at.saturating_sub(limit).max(1);
        let last = (at + limit).min(b.len());
        let mut diagonal = row[first - 1];
        row[first - 1] = if first == 1 { at.min(far) } else { far };
        for column in first..=last {
            let above = if column == at + limit { far } else { row[column] };
            let replaced = diagonal + usize::from(b[column - 1] != *c);
            diagonal = row[column];
            row[column] = replaced.min(above + 1).min(row[column - 1] + 1).min(far);
        }
    }
    row.last().copied().filter(|&distance| distance <= limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow(a: &[char], b: &[char]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, c) in a.iter().enumerate() {
            let mut next = vec![i + 1];
            for (j, d) in b.iter().enumerate() {
                next.push(
                    (row[j] + usize::from(c != d))
                        .min(row[j + 1] + 1)
                        .min(next[j] + 1),
                );
            }
            row = next;
        }
        *row.last().unwrap()
    }

    proptest! {
        #[test]
        fn the_band_is_wide_enough(a in "[abc]{0,20}", b in "[abc]{0,20}", limit in 0_usize..25) {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            let full = slow(&a, &b);
            prop_assert_eq!(distance(&a, &b, limit), (full <= limit).then_some(full));
            prop_assert_eq!(distance(&a, &b, usize::MAX), Some(full));
        }
    }
}
