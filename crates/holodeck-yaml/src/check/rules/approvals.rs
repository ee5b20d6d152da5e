//! Rules for the `approvals` block that the schema cannot express.

use holodeck_model::{Code, Diagnostic, Glob};

use super::{
    Rules, View,
    arguments::check_arguments,
    names::{check_name, tool_names},
    patterns::check_rule_patterns,
};

pub(super) fn check_approvals(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    let Some(approvals) = rules.child(agent, "approvals") else {
        return;
    };
    let names = tool_names(rules, agent, provider);
    for rule in rules.list(&approvals, "rules") {
        if rules.tree.entries(rule.node).is_none() {
            continue;
        }
        rules.check_exactly_one(&rule, "decision", "approver");
        if rules.has(&rule, "decision") && !rules.has(&rule, "approver") {
            rules.warn_no_effect(&rule, "priority", "it is shown only to a person");
        }
        check_rule_patterns(rules, &rule, provider);
        check_arguments(rules, &rule, "arguments");
        for (node, text) in rules.texts(&rule, "tools") {
            // A tool that matches a wildcard may be added later.
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
