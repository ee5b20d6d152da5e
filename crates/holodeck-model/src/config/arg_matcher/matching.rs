//! Whether an argument of a call is what was expected.

use std::cmp::Ordering;

use serde_json::Value;

use super::{ArgMatcher, Bound};
use crate::value::{is_space, python_str};

impl ArgMatcher {
    /// Whether an argument of a call is what was expected.
    pub fn matches(&self, found: &Value) -> bool {
        match self {
            Self::Literal(expected) => is_same(expected, found),
            Self::Fuzzy(expected) => is_like(expected, found),
            // An expression that gives up has not matched; a match is the only thing that may pass.
            Self::Regex(pattern) => pattern.is_full_match(&python_str(found)).unwrap_or(false),
            Self::Range { lower, upper } => number(found).is_some_and(|number| {
                let allowed = |bound: &Bound, beyond: Ordering| match number.partial_cmp(&bound.value) {
                    Some(Ordering::Equal) => bound.inclusive,
                    side => side == Some(beyond),
                };
                lower
                    .as_ref()
                    .is_none_or(|bound| allowed(bound, Ordering::Greater))
                    && upper.as_ref().is_none_or(|bound| allowed(bound, Ordering::Less))
            }),
            Self::Approx { value, tolerance } => number(found).is_some_and(|number| {
                // 3.11 - 3.1 is a little more than 0.01 as floating point has it.
                let rounding = 4.0 * f64::EPSILON * number.abs().max(value.abs());
                (number - value).abs() <= tolerance + rounding
            }),
            Self::Contains(expected) => match (found, expected) {
                (Value::String(found), Value::String(expected)) => found.contains(expected.as_str()),
                (Value::Array(items), expected) => items.iter().any(|item| is_same(expected, item)),
                _ => false,
            },
            Self::Subset(expected) => is_part(expected, found),
        }
    }
}

/// A number, but no boolean and no text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

/// Equal values: numbers by value whichever way they are written, everything else by kind and content.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64() == b.as_f64(),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

/// The entries or values of `expected`, each at least as often as there.
fn is_part(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => expected
            .iter()
            .all(|(key, expected)| found.get(key).is_some_and(|found| is_same(expected, found))),
        (Value::Array(expected), Value::Array(found)) => {
            let mut left: Vec<&Value> = found.iter().collect();
            expected.iter().all(|expected| {
                let place = left.iter().position(|found| is_same(expected, found));
                place.map(|place| left.swap_remove(place)).is_some()
            })
        }
        _ => false,
    }
}

/// Texts that differ only in case, blanks and separators; numbers within 1e-9, `12%` being 0.12.
fn is_like(expected: &str, found: &Value) -> bool {
    let (expected, found) = (
        without_separators(expected),
        without_separators(&python_str(found)),
    );
    match (loose_number(&expected), loose_number(&found)) {
        (Some(expected), Some(found)) => {
            // Two infinities are the same, but have no difference.
            expected.partial_cmp(&found) == Some(Ordering::Equal) || (expected - found).abs() <= 1e-9
        }
        _ => expected == found,
    }
}

fn without_separators(text: &str) -> String {
    let lower = text.trim_matches(is_space).to_lowercase();
    let kept: String = lower.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    let mut collapsed = String::with_capacity(kept.len());
    for c in kept.chars() {
        let c = if is_space(c) { ' ' } else { c };
        if !(c == ' ' && collapsed.ends_with(' ')) {
            collapsed.push(c);
        }
    }
    collapsed
}

fn loose_number(text: &str) -> Option<f64> {
    let (digits, divisor) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim_matches(is_space), 100.0),
        None => (text, 1.0),
    };
    let number: f64 = digits.replace(' ', "").parse().ok()?;
    (!number.is_nan()).then_some(number / divisor)
}
