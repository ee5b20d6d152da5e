//! The `approvals` block.

use super::{Rules, View};

pub(super) fn check_approvals(rules: &mut Rules<'_>, agent: &View) {
    let Some(approvals) = rules.child(agent, "approvals") else {
        return;
    };
    for rule in rules.list(&approvals, "rules") {
        if rules.tree.entries(rule.node).is_none() {
            continue;
        }
        rules.exactly_one(&rule, "decision", "approver");
        if rules.has(&rule, "decision") && !rules.has(&rule, "approver") {
            rules.no_effect(&rule, "priority", "only a person sees it");
        }
    }
}
