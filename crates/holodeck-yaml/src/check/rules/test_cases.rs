//! Checks test cases and turns.

use holodeck_model::{Code, Diagnostic, ToolNames};

use super::{
    Rules, View,
    arguments::check_arguments,
    evaluation::check_metrics,
    names::{check_name, tool_names},
};
use crate::yaml::NodeId;

/// The fields that belong in the turns if there are turns.
const PER_TURN: [&str; 7] = [
    "input",
    "ground_truth",
    "expected_tools",
    "expected_tools_order",
    "forbidden_tools",
    "files",
    "retrieval_context",
];

pub(super) fn check_test_cases(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    let names = tool_names(rules, agent, provider);
    let execution = rules.child(agent, "execution");
    if let Some(execution) = &execution {
        check_min_passes(rules, execution, None, true);
    }
    for case in rules.list(agent, "test_cases") {
        if rules.tree.entries(case.node).is_none() {
            continue;
        }
        check_min_passes(rules, &case, execution.as_ref(), false);
        check_metrics(rules, &case, "evaluations");
        check_question(rules, &case, &names);
        let turns = rules.list(&case, "turns");
        if turns.is_empty() {
            if !rules.has(&case, "input") {
                rules.report_missing(&case, "input", "", "the question, unless the case has `turns`");
            }
            continue;
        }
        check_only_turns(rules, &case);
        for turn in &turns {
            check_metrics(rules, turn, "evaluations");
            check_question(rules, turn, &names);
        }
    }
}

/// Reports more trials that must pass than there are, where a case cannot pass. `execution` has the values that a case
/// does not set. `execution` by itself is wrong only if it sets both, because cases may set one of them.
fn check_min_passes(rules: &mut Rules<'_>, owner: &View, execution: Option<&View>, is_execution: bool) {
    let has_own = rules.entry(owner, "trials").is_some() || rules.entry(owner, "min_passes").is_some();
    let number = |key: &str| {
        let own = rules.number(owner, key);
        own.or_else(|| rules.number(execution?, key))
    };
    let (Some(min), trials) = (number("min_passes"), number("trials")) else {
        return;
    };
    let (trials, key) = match (trials, rules.entry(owner, "min_passes").is_some()) {
        (Some(trials), true) => (trials, "min_passes"),
        (Some(trials), false) => (trials, "trials"),
        (None, true) if !is_execution => (1.0, "min_passes"),
        (None, _) => return,
    };
    if !has_own || min <= trials {
        return;
    }
    let runs = if trials > 1.0 { "trials run" } else { "trial runs" };
    let message = format!(
        "`min_passes`{} is {min}, but only {trials} {runs}",
        rules.owner_suffix(owner)
    );
    let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
        .about(owner.path.pointer(Some(key)))
        .with_help("raise `trials` or lower `min_passes`");
    let place = rules.key_place(owner, key);
    rules.add(place, diagnostic);
}

fn check_only_turns(rules: &mut Rules<'_>, case: &View) {
    let present: Vec<&str> = PER_TURN
        .into_iter()
        .filter(|key| rules.entry(case, key).is_some())
        .collect();
    for key in present {
        let label = rules.tree.location(rules.key_place(case, "turns"));
        let message = format!("`{key}`{} belongs in its `turns`", rules.owner_suffix(case));
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(case.path.pointer(Some(key)))
            .with_label(label, "`turns` is here")
            .with_help("a case with turns can have only `name` and `evaluations` itself");
        let place = rules.key_place(case, key);
        rules.add(place, diagnostic);
    }
}

/// Checks the fields that a case and a turn have in common.
fn check_question(rules: &mut Rules<'_>, owner: &View, names: &ToolNames) {
    for call in rules.list(owner, "expected_tools") {
        check_arguments(rules, &call);
        let node = match rules.tree.scalar(call.node) {
            Some(_) => Some(call.node),
            None => rules.entry(&call, "name").map(|entry| entry.value),
        };
        check_reference(rules, &call, node, names, "expected tool");
    }
    for forbidden in rules.list(owner, "forbidden_tools") {
        check_reference(rules, &forbidden, Some(forbidden.node), names, "forbidden tool");
    }
    for file in rules.list(owner, "files") {
        if rules.tree.entries(file.node).is_some() {
            rules.check_exactly_one(&file, "path", "url");
            rules.check_file(&file, "path", Diagnostic::warning);
        }
    }
}

/// Reports a name that no tool has: an expectation that cannot be met, or a prohibition without effect.
fn check_reference(rules: &mut Rules<'_>, at: &View, node: Option<NodeId>, names: &ToolNames, what: &str) {
    let Some((node, scalar)) = node.and_then(|node| Some((node, rules.tree.scalar(node)?))) else {
        return;
    };
    check_name(rules, names, node, scalar.text, |shown| {
        let message = format!("{what} {shown} is not among the `tools`");
        Diagnostic::warning(Code::UnknownReference, message).about(at.path.pointer(None))
    });
}
