//! Identifies everything that decides the verdict on a case: its checks and rules, with the judges and programs of the
//! checks.
//!
//! The identity of a single check is that of [`CheckIdentities`]; this module must not define another.

use std::collections::HashMap;

use holodeck_model::{
    CaseDeciders, CheckIdentities, CheckIdentity, CheckReads, Digest, MetricConfig, OnTruncated, TestCase,
    ToolOrder, check_label,
};
use serde_json::{Value, json};

use super::{Expectations, conversation::whole_expectations, expectations};

/// Between the part of a conversation and the name of its check.
const OF_CONVERSATION: &str = "conversation: ";

impl<'a> Expectations<'a> {
    /// The texts that its checks may read.
    pub(super) fn reads(self, goal: Option<&'a str>, conversation: bool) -> CheckReads<'a> {
        CheckReads {
            ground_truth: self.ground_truth,
            retrieval_context: self.retrieval_context,
            turn_config: self.turn_config,
            goal,
            conversation,
        }
    }

    /// The rules about tools.
    fn tool_rules(&self) -> Vec<(&'static str, Value)> {
        let tools = self.expected_tools.filter(|tools| !tools.is_empty());
        let order = tools.filter(|_| self.expected_tools_order != ToolOrder::default());
        let forbidden = Some(self.forbidden_tools).filter(|tools| !tools.is_empty());
        let rules = [
            ("expected_tools", tools.map(|tools| json!(tools))),
            (
                "expected_tools_order",
                order.map(|_| json!(self.expected_tools_order)),
            ),
            ("forbidden_tools", forbidden.map(|tools| json!(tools))),
        ];
        let rules = rules.into_iter().filter_map(|(name, rule)| Some((name, rule?)));
        rules.collect()
    }

    /// The digest of the rules about tools, by which a verdict on masked arguments is found again; `None` without rules.
    pub(super) fn tool_digest(&self) -> Option<Digest> {
        let rules = self.tool_rules();
        (!rules.is_empty()).then(|| Digest::of(&json!(rules)))
    }

    /// All rules beside its metrics.
    fn rules(&self) -> Vec<(&'static str, Value)> {
        let mut rules = self.tool_rules();
        if !self.expected_approvals.is_empty() {
            rules.push(("expected_approvals", json!(self.expected_approvals)));
        }
        if let Some(agent) = self.expected_agent {
            // No agent is an expectation too.
            rules.push(("expected_agent", json!([agent])));
        }
        rules
    }
}

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
    for (place, expected) in expectations::of_turns(case).into_iter().enumerate() {
        let prefix = match case.turns.as_slice() {
            [] => String::new(),
            _ => format!("turn {}: ", place + 1),
        };
        add_rules(&mut deciders, checks, &prefix, expected);
        let configs = enabled(checks, expected);
        let identities = configs.map(|config| (config, checks.check(config, expected.reads(None, false))));
        add_checks(&mut deciders, &prefix, identities);
    }
    if let Some((user, whole)) = super::of_conversation(case) {
        add_rules(&mut deciders, checks, OF_CONVERSATION, whole);
        if let Some(end) = &user.expected_end {
            deciders.add_rule(format!("{OF_CONVERSATION}expected_end"), checks.rule(json!(end)));
        }
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
