//! Checks expected arguments of a tool call: literals and matchers.

use holodeck_model::{ArgMatcher, Code, Diagnostic, Pattern};

use super::{HELP_FOR_PATTERNS, Rules, View};
use crate::yaml::lenient_f64;

/// Checks the arguments in field `key`.
pub(super) fn check_arguments(rules: &mut Rules<'_>, call: &View, key: &str) {
    let Some(args) = rules.child(call, key) else {
        return;
    };
    for argument in rules.values(&args) {
        let Some(entries) = rules.tree.entries(argument.node) else {
            continue;
        };
        let keys: Vec<&str> = entries.iter().map(|entry| rules.tree.key(entry)).collect();
        if ArgMatcher::is_matcher(keys.iter().copied()) {
            check_matcher(rules, &argument, &keys);
        } else {
            check_literal(rules, &argument, &keys);
        }
    }
}

/// Reports a mapping that may be meant as a matcher. With a key of a 0.7.1 matcher it is an error, as in 0.7.1.
fn check_literal(rules: &mut Rules<'_>, argument: &View, keys: &[&str]) {
    let all = !keys.is_empty() && keys.iter().all(|key| ArgMatcher::KEYS.contains(key));
    let old = keys.iter().any(|key| ArgMatcher::is_old_key(key));
    if !all && !old {
        return;
    }
    let field = argument.path.describe_field(rules.tree);
    let diagnostic = if old {
        Diagnostic::error(Code::LiteralMatcher, format!("{field} is not a valid matcher"))
    } else {
        let message = format!("{field} is compared literally because it is not a matcher");
        Diagnostic::warning(Code::LiteralMatcher, message)
    };
    let diagnostic = diagnostic
        .about(argument.path.pointer(None))
        .with_help("a matcher has exactly one key; only a lower and an upper bound can be combined");
    let place = rules.tree.place(argument.node);
    rules.add(place, diagnostic);
}

fn check_matcher(rules: &mut Rules<'_>, matcher: &View, keys: &[&str]) {
    for key in keys {
        match *key {
            "fuzzy" | "regex" => check_text(rules, matcher, key),
            "gt" | "gte" | "lt" | "lte" => check_number(rules, matcher, key),
            "approx" => check_approx(rules, matcher),
            "subset" => check_subset(rules, matcher),
            _ => {}
        }
    }
    let bound = |keys: [&str; 2]| keys.iter().find_map(|key| rules.number(matcher, key));
    if let (Some(lower), Some(upper)) = (bound(["gt", "gte"]), bound(["lt", "lte"]))
        && lower > upper
    {
        let key = keys.first().copied().unwrap_or("gt");
        let message = format!("no number is above {lower} and below {upper}");
        rules.report_inconsistent(matcher, key, message, None);
    }
}

fn check_text(rules: &mut Rules<'_>, matcher: &View, key: &str) {
    let text = rules
        .tree
        .get(matcher.node, key)
        .and_then(|entry| rules.tree.scalar(entry.value));
    let place = rules
        .tree
        .get(matcher.node, key)
        .map_or(matcher.named_at, |entry| rules.tree.place(entry.value));
    let pointer = matcher.path.pointer(Some(key));
    match text {
        None => {
            let message = format!("`{key}`{} must be a string", rules.owner_suffix(matcher));
            rules.add(place, Diagnostic::error(Code::WrongType, message).about(pointer));
        }
        Some(scalar) if key == "regex" => {
            if let Err(error) = Pattern::new(scalar.text) {
                let message = format!(
                    "`regex`{} is not a regular expression: {error}",
                    rules.owner_suffix(matcher)
                );
                let diagnostic = Diagnostic::error(Code::BadPattern, message)
                    .about(pointer)
                    .with_help(HELP_FOR_PATTERNS);
                rules.add(place, diagnostic);
            }
        }
        Some(_) => {}
    }
}

fn check_number(rules: &mut Rules<'_>, matcher: &View, key: &str) {
    let Some(entry) = rules.tree.get(matcher.node, key) else {
        return;
    };
    let scalar = rules.tree.scalar(entry.value);
    if scalar.is_some_and(|scalar| scalar.plain && lenient_f64(scalar.text).is_some()) {
        return;
    }
    let message = format!("`{key}`{} must be a number", rules.owner_suffix(matcher));
    let diagnostic = Diagnostic::error(Code::WrongType, message).about(matcher.path.pointer(Some(key)));
    let place = rules.tree.place(entry.value);
    rules.add(place, diagnostic);
}

fn check_approx(rules: &mut Rules<'_>, matcher: &View) {
    let Some(approx) = rules
        .child(matcher, "approx")
        .filter(|approx| rules.tree.entries(approx.node).is_some())
    else {
        let message = format!(
            "`approx`{} must be a mapping with `value` and `tolerance`",
            rules.owner_suffix(matcher)
        );
        let diagnostic =
            Diagnostic::error(Code::WrongType, message).about(matcher.path.pointer(Some("approx")));
        let place = rules.value_place(matcher, "approx");
        rules.add(place, diagnostic);
        return;
    };
    for (key, what) in [
        ("value", "the number"),
        ("tolerance", "how far the argument may be from it"),
    ] {
        if rules.has(&approx, key) {
            check_number(rules, &approx, key);
        } else {
            rules.report_missing(&approx, key, "", what);
        }
    }
    let tolerance = rules
        .tree
        .get(approx.node, "tolerance")
        .and_then(|entry| rules.tree.scalar(entry.value));
    if tolerance
        .and_then(|scalar| lenient_f64(scalar.text))
        .is_some_and(|tolerance| tolerance < 0.0)
    {
        let message = format!("`tolerance`{} must be 0 or more", rules.owner_suffix(&approx));
        let diagnostic =
            Diagnostic::error(Code::OutOfRange, message).about(approx.path.pointer(Some("tolerance")));
        let place = rules.value_place(&approx, "tolerance");
        rules.add(place, diagnostic);
    }
    for entry in rules.tree.entries(approx.node).unwrap_or_default() {
        let key = rules.tree.key(entry);
        if !matches!(key, "value" | "tolerance") {
            let message = format!("unknown field `{key}`{}", rules.owner_suffix(&approx));
            let diagnostic = Diagnostic::error(Code::UnknownField, message)
                .about(approx.path.pointer(Some(key)))
                .with_help("the fields here are `value` and `tolerance`");
            rules.add(entry.key_place, diagnostic);
        }
    }
}

fn check_subset(rules: &mut Rules<'_>, matcher: &View) {
    let Some(subset) = rules.tree.get(matcher.node, "subset") else {
        return;
    };
    if rules.tree.scalar(subset.value).is_none() {
        return;
    }
    let message = format!(
        "`subset`{} must be a mapping or a list",
        rules.owner_suffix(matcher)
    );
    let diagnostic = Diagnostic::error(Code::WrongType, message).about(matcher.path.pointer(Some("subset")));
    let place = rules.tree.place(subset.value);
    rules.add(place, diagnostic);
}
