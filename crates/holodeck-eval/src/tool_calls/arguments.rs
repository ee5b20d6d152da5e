//! Comparing the arguments of a call with what is expected of them.

use holodeck_model::{ArgMatcher, Bound};
use serde_json::Value;

use crate::json_text::shown;

/// Why the arguments of a call do not meet the expectations, none if they do.
pub(super) fn mismatch<'m>(
    expected: impl IntoIterator<Item = (&'m String, &'m ArgMatcher)>,
    arguments: &Value,
) -> Option<String> {
    expected
        .into_iter()
        .find_map(|(name, matcher)| match arguments.get(name) {
            None => Some(format!("arg '{name}' missing")),
            Some(found) if matcher.matches(found) => None,
            Some(found) => Some(format!(
                "arg '{name}' mismatch: expected {}, got {}",
                described(matcher),
                shown(found)
            )),
        })
}

/// What is expected, in words.
fn described(matcher: &ArgMatcher) -> String {
    match matcher {
        ArgMatcher::Literal(value) => shown(value),
        ArgMatcher::Fuzzy(text) => format!("≈'{text}'"),
        ArgMatcher::Regex(pattern) => format!("regex '{}'", pattern.as_str()),
        ArgMatcher::Range { lower, upper } => {
            let bounds = [lower.as_ref().map(lower_bound), upper.as_ref().map(upper_bound)];
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
            let bounds = [lower.as_ref().map(lower_bound), upper.as_ref().map(upper_bound)];
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
