//! The `approvals` block.

use super::{
    Rules, View,
    names::{check_name, tool_names},
};
use crate::{Code, Diagnostic, Glob};

pub(super) fn check_approvals(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    let Some(approvals) = rules.child(agent, "approvals") else {
        return;
    };
    let names = tool_names(rules, agent, provider);
    for rule in rules.list(&approvals, "rules") {
        if rules.tree.entries(rule.node).is_none() {
            continue;
        }
        rules.exactly_one(&rule, "decision", "approver");
        if rules.has(&rule, "decision") && !rules.has(&rule, "approver") {
            rules.no_effect(&rule, "priority", "only a person sees it");
        }
        for (node, text) in rules.texts(&rule, "tools") {
            // What a wildcard matches may come later.
            if Glob::new(text).as_literal().is_none() {
                continue;
            }
            check_name(rules, &names, node, text, |shown| {
                let message = format!("{shown} in a rule of `approvals` is not a tool of this agent");
                Diagnostic::warning(Code::UnknownValue, message).about(rule.path.pointer(Some("tools")))
            });
        }
    }
}
