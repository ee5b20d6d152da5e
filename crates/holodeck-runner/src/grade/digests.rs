//! Identifies everything that decides the verdict on a case: its checks and rules, with the judges and programs of the
//! checks.
//!
//! The identity of a single check is that of [`CheckIdentities`]; this module must not define another.

use std::collections::HashMap;

use holodeck_model::{
    CaseDeciders, CheckIdentities, CheckIdentity, MetricConfig, OnMasked, OnTruncated, TestCase, check_label,
};
use holodeck_runs::{Expectations, of_conversation, of_turns};
use serde_json::json;

use super::conversation::whole_expectations;

/// Between the part of a conversation and the name of its check.
const OF_CONVERSATION: &str = "conversation: ";

/// The enabled metrics of a turn.
pub(super) fn enabled<'a>(
    checks: &'a CheckIdentities,
    expected: Expectations<'a>,
) -> impl Iterator<Item = &'a MetricConfig> {
    let configs = match expected.evaluations {
        [] if expected.only_selection => &[],
        [] => checks.shared(),
        configs => configs,
    };
    configs.iter().filter(|config| config.enabled())
}

/// Everything that decides the verdict on a case, except how many trials must pass.
pub(crate) fn case_deciders(
    checks: &CheckIdentities,
    case: &TestCase,
    on_truncated: OnTruncated,
) -> CaseDeciders {
    let mut deciders = CaseDeciders::known();
    if on_truncated != OnTruncated::default() {
        deciders.add_rule("on_truncated".to_owned(), checks.rule(json!(on_truncated)));
    }
    for (place, expected) in of_turns(case).into_iter().enumerate() {
        let prefix = match case.turns.as_slice() {
            [] => String::new(),
            _ => format!("turn {}: ", place + 1),
        };
        add_rules(&mut deciders, checks, &prefix, expected);
        let configs = enabled(checks, expected);
        let identities = configs.map(|config| (config, checks.check(config, expected.reads(None, false))));
        add_checks(&mut deciders, &prefix, identities);
    }
    if let Some((user, whole)) = of_conversation(case) {
        add_rules(&mut deciders, checks, OF_CONVERSATION, whole);
        if checks.on_masked() == OnMasked::Accept {
            // Otherwise what a user decided on masked texts is an error.
            let rule = checks.rule(json!(OnMasked::Accept));
            deciders.add_rule(format!("{OF_CONVERSATION}on_masked"), rule);
        }
        if let Some(end) = &user.expected_end {
            deciders.add_rule(format!("{OF_CONVERSATION}expected_end"), checks.rule(json!(end)));
        }
    }
    if let Some(min_score) = case.min_score {
        // With it, weights decide too.
        let metrics = of_turns(case)
            .into_iter()
            .flat_map(|expected| enabled(checks, expected));
        let weights = metrics.chain(case.conversation_metrics());
        let weights: Vec<(&str, f64)> = weights.map(|config| (config.name(), config.weight())).collect();
        deciders.add_rule("min_score".to_owned(), checks.rule(json!([min_score, weights])));
    }
    let reads = whole_expectations(case).reads(case.goal(), true);
    let identities = case
        .conversation_metrics()
        .map(|config| (config, checks.check(config, reads)));
    add_checks(&mut deciders, OF_CONVERSATION, identities);
    deciders
}

fn add_rules(
    deciders: &mut CaseDeciders,
    checks: &CheckIdentities,
    prefix: &str,
    expected: Expectations<'_>,
) {
    for (name, rule) in expected.rules() {
        deciders.add_rule(format!("{prefix}{name}"), checks.rule(rule));
    }
}

fn add_checks<'a>(
    deciders: &mut CaseDeciders,
    prefix: &str,
    checks: impl Iterator<Item = (&'a MetricConfig, CheckIdentity)>,
) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (config, identity) in checks {
        let nth = seen.entry(config.name()).or_default();
        deciders.add_check(&check_label(prefix, config.name(), *nth), identity);
        *nth += 1;
    }
}
