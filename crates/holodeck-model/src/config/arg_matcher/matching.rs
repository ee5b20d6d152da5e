//! Whether an argument of a call is what was expected.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{ArgMatcher, Bound};
use crate::value::{Decimal, has_lost_digits, is_space, python_str, without_grouping};

impl ArgMatcher {
    /// Whether an argument of a call is what was expected.
    pub fn matches(&self, found: &Value) -> bool {
        match self {
            Self::Literal(expected) => is_same(expected, found),
            Self::Fuzzy(expected) => {
                !found.as_number().is_some_and(has_lost_digits) && is_like(expected, found)
            }
            // An expression that exceeds its limits does not match.
            Self::Regex(pattern) => pattern.is_full_match(&python_str(found)).unwrap_or(false),
            Self::Range { lower, upper } => found.as_number().is_some_and(|number| {
                let allowed = |bound: &Bound, beyond: Ordering| match compare(number, &bound.value) {
                    // Two different integers beyond 64 bits can look equal.
                    Some(Ordering::Equal) => bound.inclusive && !has_lost_digits(number),
                    side => side == Some(beyond),
                };
                lower
                    .as_ref()
                    .is_none_or(|bound| allowed(bound, Ordering::Greater))
                    && upper.as_ref().is_none_or(|bound| allowed(bound, Ordering::Less))
            }),
            Self::Approx { value, tolerance } => found
                .as_number()
                .is_some_and(|number| is_near(number, value, tolerance)),
            Self::Contains(expected) => match (found, expected) {
                (Value::String(found), Value::String(expected)) => found.contains(expected.as_str()),
                (Value::Array(items), expected) => items.iter().any(|item| is_same(expected, item)),
                _ => false,
            },
            Self::Subset(expected) => is_part(expected, found),
        }
    }
}

/// Compares exactly, also an integer with a double.
fn compare(one: &Number, two: &Number) -> Option<Ordering> {
    Some(Decimal::from_number(one)?.cmp(&Decimal::from_number(two)?))
}

/// Compares integers exactly, decimals as doubles.
fn is_near(found: &Number, value: &Number, tolerance: &Number) -> bool {
    if [found, value, tolerance].iter().all(|number| !number.is_f64()) {
        let exact = |number| Decimal::from_number(number).unwrap_or_default();
        return exact(found).distance(&exact(value)) <= exact(tolerance);
    }
    let double = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    let is_lossy = has_lost_digits(found) || has_lost_digits(value);
    let (found, value) = (double(found), double(value));
    let rounding = 4.0 * f64::EPSILON * found.abs().max(value.abs());
    let distance = (found - value).abs();
    if is_lossy {
        // The integers can be farther apart than the doubles.
        return distance + rounding <= double(tolerance);
    }
    // In doubles, 3.11 - 3.1 is a little more than 0.01.
    distance <= double(tolerance) + rounding
}

/// Whether two values are equal: numbers by value in any notation, everything else by kind and content.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            !has_lost_digits(a) && !has_lost_digits(b) && compare(a, b) == Some(Ordering::Equal)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

/// Whether `found` has the entries or values of `expected`, each at least as often.
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

/// Whether strings differ only in case, whitespace and separators, or numbers by at most 1e-9; `12%` is 0.12.
fn is_like(expected: &str, found: &Value) -> bool {
    let written = python_str(found);
    let groups_thousands = groups_thousands(expected) && groups_thousands(&written);
    let is_same_text = || expected.trim_matches(is_space) == written.trim_matches(is_space);
    let (expected, found) = (without_separators(expected), without_separators(&written));
    match (loose_number(&expected), loose_number(&found)) {
        // Without its commas, `3,14` would be 314.
        (Some(_), Some(_)) if !groups_thousands => is_same_text(),
        (Some(expected), Some(found)) => {
            Decimal::parse("1e-9").is_some_and(|near| expected.distance(&found) <= near)
        }
        _ => expected == found || infinity(&expected).is_some_and(|sign| infinity(&found) == Some(sign)),
    }
}

/// Whether the commas of a number, if it has any, separate thousands.
fn groups_thousands(text: &str) -> bool {
    let number = text.trim_matches(is_space);
    let number = number.strip_suffix('%').unwrap_or(number);
    without_grouping(number.trim_matches(is_space), &[',']).is_some()
}

/// Whether an infinity is positive.
fn infinity(text: &str) -> Option<bool> {
    let number: f64 = text.parse().ok()?;
    (number.is_infinite() && text.contains("inf")).then(|| number.is_sign_positive())
}

fn without_separators(text: &str) -> String {
    let lower = text.trim_matches(is_space).to_lowercase();
    let text: String = lower.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    let mut collapsed = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if is_space(c) { ' ' } else { c };
        if !(c == ' ' && collapsed.ends_with(' ')) {
            collapsed.push(c);
        }
    }
    collapsed
}

fn loose_number(text: &str) -> Option<Decimal> {
    let number = |digits: &str| Decimal::parse(&digits.replace(' ', ""));
    match text.strip_suffix('%') {
        Some(digits) => Some(number(digits.trim_matches(is_space))?.scaled(-2)),
        None => number(text),
    }
}
