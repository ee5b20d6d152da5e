//! Comparing the arguments of a call with what is expected of them.

use std::cmp::Ordering;

use holodeck_model::{ArgMatcher, Bound};
use serde_json::Value;

use crate::json_text::{python_str, shown};
use crate::nlp;

/// Why the arguments of a call do not meet the expectations, none if they do.
pub(super) fn mismatch<'m>(
    expected: impl IntoIterator<Item = (&'m String, &'m ArgMatcher)>,
    arguments: &Value,
) -> Option<String> {
    expected
        .into_iter()
        .find_map(|(name, matcher)| match arguments.get(name) {
            None => Some(format!("arg '{name}' missing")),
            Some(found) if meets(matcher, found) => None,
            Some(found) => Some(format!(
                "arg '{name}' mismatch: expected {}, got {}",
                described(matcher),
                shown(found)
            )),
        })
}

fn meets(matcher: &ArgMatcher, found: &Value) -> bool {
    match matcher {
        ArgMatcher::Literal(expected) => is_same(expected, found),
        ArgMatcher::Fuzzy(expected) => is_like(expected, found),
        // An expression that gives up has not matched; a match is the only thing that may pass.
        ArgMatcher::Regex(pattern) => pattern.is_full_match(&python_str(found)).unwrap_or(false),
        ArgMatcher::Range { lower, upper } => number(found).is_some_and(|number| {
            let allowed = |bound: &Bound, beyond: Ordering| match number.partial_cmp(&bound.value) {
                Some(Ordering::Equal) => bound.inclusive,
                side => side == Some(beyond),
            };
            lower
                .as_ref()
                .is_none_or(|bound| allowed(bound, Ordering::Greater))
                && upper.as_ref().is_none_or(|bound| allowed(bound, Ordering::Less))
        }),
        ArgMatcher::Approx { value, tolerance } => number(found).is_some_and(|number| {
            // 3.11 - 3.1 is a little more than 0.01 as floating point has it.
            let rounding = 4.0 * f64::EPSILON * number.abs().max(value.abs());
            (number - value).abs() <= tolerance + rounding
        }),
        ArgMatcher::Contains(expected) => match (found, expected) {
            (Value::String(found), Value::String(expected)) => found.contains(expected.as_str()),
            (Value::Array(items), expected) => items.iter().any(|item| is_same(expected, item)),
            _ => false,
        },
        ArgMatcher::Subset(expected) => is_part(expected, found),
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
    let lower = nlp::trimmed(text).to_lowercase();
    let kept: String = lower.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    let mut collapsed = String::with_capacity(kept.len());
    for c in kept.chars() {
        let c = if nlp::is_space(c) { ' ' } else { c };
        if !(c == ' ' && collapsed.ends_with(' ')) {
            collapsed.push(c);
        }
    }
    collapsed
}

fn loose_number(text: &str) -> Option<f64> {
    let (digits, divisor) = match text.strip_suffix('%') {
        Some(digits) => (nlp::trimmed(digits), 100.0),
        None => (text, 1.0),
    };
    let number: f64 = digits.replace(' ', "").parse().ok()?;
    (!number.is_nan()).then_some(number / divisor)
}

/// What is expected, in words.
fn described(matcher: &ArgMatcher) -> String {
    match matcher {
        ArgMatcher::Literal(value) => shown(value),
        ArgMatcher::Fuzzy(text) => format!("≈'{text}'"),
        ArgMatcher::Regex(pattern) => format!("regex '{}'", pattern.as_str()),
        ArgMatcher::Range { lower, upper } => {
            let bounds = [
                lower.map(|bound| lower_bound(&bound)),
                upper.map(|bound| upper_bound(&bound)),
            ];
            bounds.into_iter().flatten().collect::<Vec<_>>().join(" and ")
        }
        ArgMatcher::Approx { value, tolerance } => format!("{value} ± {tolerance}"),
        ArgMatcher::Contains(value) => format!("something that contains {}", shown(value)),
        ArgMatcher::Subset(value) => format!("at least {}", shown(value)),
    }
}

/// The expectation about one argument, as it stands in the line of a call.
pub(super) fn written(name: &str, matcher: &ArgMatcher) -> String {
    match matcher {
        ArgMatcher::Literal(value) => format!("{name}={}", shown(value)),
        ArgMatcher::Fuzzy(text) => format!("{name}≈'{text}'"),
        ArgMatcher::Regex(pattern) => format!("{name}~{}", pattern.as_str()),
        ArgMatcher::Range { lower, upper } => {
            let bounds = [
                lower.map(|bound| lower_bound(&bound)),
                upper.map(|bound| upper_bound(&bound)),
            ];
            bounds
                .into_iter()
                .flatten()
                .map(|bound| format!("{name}{bound}"))
                .collect::<Vec<_>>()
                .join(", ")
        }
        ArgMatcher::Approx { value, tolerance } => format!("{name}≈{value}±{tolerance}"),
        ArgMatcher::Contains(value) => format!("{name} contains {}", shown(value)),
        ArgMatcher::Subset(value) => format!("{name} has {}", shown(value)),
    }
}

fn lower_bound(bound: &Bound) -> String {
    format!("{}{}", if bound.inclusive { "≥" } else { ">" }, bound.value)
}

fn upper_bound(bound: &Bound) -> String {
    format!("{}{}", if bound.inclusive { "≤" } else { "<" }, bound.value)
}
