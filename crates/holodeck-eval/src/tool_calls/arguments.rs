//! Compares the arguments of a call with the expectations.

use holodeck_model::{ArgMatcher, Bound, has_lost_digits};
use serde_json::Value;

use crate::json_text::format_json;

/// Why the arguments of a call do not match; `None` if they do.
pub(super) fn mismatch<'m>(
    expected: impl IntoIterator<Item = (&'m String, &'m ArgMatcher)>,
    arguments: &Value,
) -> Option<String> {
    expected
        .into_iter()
        .find_map(|(name, matcher)| match arguments.get(name) {
            None => Some(format!("arg '{name}' missing")),
            Some(found) if matcher.matches(found) => None,
            Some(Value::Number(found)) if has_lost_digits(found) => Some(format!(
                "arg '{name}' mismatch: {found} is beyond 64 bits and has lost digits; pass it as a string, or \
                 expect a range"
            )),
            Some(found) => Some(format!(
                "arg '{name}' mismatch: expected {}, got {}",
                describe(matcher),
                format_json(found)
            )),
        })
}

/// Describes the expected value.
fn describe(matcher: &ArgMatcher) -> String {
    match matcher {
        ArgMatcher::Literal(value) => format_json(value),
        ArgMatcher::Fuzzy(text) => format!("≈'{text}'"),
        ArgMatcher::Regex(pattern) => format!("regex '{}'", pattern.as_str()),
        ArgMatcher::Range { lower, upper } => {
            let bounds = [lower.as_ref().map(lower_bound), upper.as_ref().map(upper_bound)];
            bounds.into_iter().flatten().collect::<Vec<_>>().join(" and ")
        }
        ArgMatcher::Approx { value, tolerance } => format!("{value} ± {tolerance}"),
        ArgMatcher::Contains(value) => format!("a value that contains {}", format_json(value)),
        ArgMatcher::Subset(value) => format!("at least {}", format_json(value)),
    }
}

/// Describes the expectation about one argument, in the line of a call.
pub(super) fn describe_argument(name: &str, matcher: &ArgMatcher) -> String {
    match matcher {
        ArgMatcher::Literal(value) => format!("{name}={}", format_json(value)),
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
        ArgMatcher::Contains(value) => format!("{name} contains {}", format_json(value)),
        ArgMatcher::Subset(value) => format!("{name} has {}", format_json(value)),
    }
}

fn lower_bound(bound: &Bound) -> String {
    format!("{}{}", if bound.inclusive { "≥" } else { ">" }, bound.value)
}

fn upper_bound(bound: &Bound) -> String {
    format!("{}{}", if bound.inclusive { "≤" } else { "<" }, bound.value)
}
