//! Test cases and turns.

use super::{Rules, View, arguments::check_arguments, evaluation::check_metrics};
use crate::{Code, Diagnostic, check::closest};

/// What belongs to the turns when there are turns.
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
    let known = known_tools(rules, agent, provider);
    for case in rules.list(agent, "test_cases") {
        if rules.tree.entries(case.node).is_none() {
            continue;
        }
        check_metrics(rules, &case, "evaluations");
        check_question(rules, &case, known.as_deref());
        let turns = rules.list(&case, "turns");
        if turns.is_empty() {
            if !rules.has(&case, "input") {
                rules.missing(&case, "input", "", "the question, unless the case has `turns`");
            }
            continue;
        }
        check_only_turns(rules, &case);
        for turn in &turns {
            check_metrics(rules, turn, "evaluations");
            check_question(rules, turn, known.as_deref());
        }
    }
}

/// The tools by name, if they can all be known: an MCP server and the Claude CLI bring tools of their own.
fn known_tools<'a>(rules: &Rules<'a>, agent: &View, provider: Option<&str>) -> Option<Vec<&'a str>> {
    if provider == Some("anthropic") {
        return None;
    }
    let tools = rules.list(agent, "tools");
    tools
        .iter()
        .map(|tool| {
            rules
                .text(tool, "name")
                .filter(|_| rules.text(tool, "type") != Some("mcp"))
        })
        .collect()
}

fn check_only_turns(rules: &mut Rules<'_>, case: &View) {
    let present: Vec<&str> = PER_TURN
        .into_iter()
        .filter(|key| rules.entry(case, key).is_some())
        .collect();
    for key in present {
        let label = rules.tree.location(rules.key_place(case, "turns"));
        let message = format!("`{key}`{} belongs into its `turns`", rules.of(case));
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(case.path.pointer(Some(key)))
            .with_label(label, "`turns` is here")
            .with_help("a case with turns has only `name` and `evaluations` of its own");
        let place = rules.key_place(case, key);
        rules.add(place, diagnostic);
    }
}

/// What a case and a turn have in common.
fn check_question(rules: &mut Rules<'_>, owner: &View, known: Option<&[&str]>) {
    for call in rules.list(owner, "expected_tools") {
        check_arguments(rules, &call);
        let name = match rules.tree.scalar(call.node) {
            Some(scalar) => Some(scalar.text),
            None => rules.text(&call, "name"),
        };
        if let (Some(name), Some(known)) = (name, known) {
            check_reference(rules, &call, name, known, "expected tool");
        }
    }
    for forbidden in rules.list(owner, "forbidden_tools") {
        if let (Some(scalar), Some(known)) = (rules.tree.scalar(forbidden.node), known) {
            check_reference(rules, &forbidden, scalar.text, known, "forbidden tool");
        }
    }
    for file in rules.list(owner, "files") {
        if rules.tree.entries(file.node).is_some() {
            rules.exactly_one(&file, "path", "url");
            rules.file(&file, "path", Diagnostic::warning);
        }
    }
}

/// A name that no tool answers to: an expectation that cannot be met, or a ban that bans nothing.
fn check_reference(rules: &mut Rules<'_>, at: &View, name: &str, known: &[&str], what: &str) {
    // 0.7 accepted a part of the called name, and calls its search tools `<name>_search`.
    let answers = |tool: &&str| tool.contains(name) || format!("{tool}_search").contains(name);
    if name.trim().is_empty() || known.iter().any(answers) {
        return;
    }
    let mut diagnostic = Diagnostic::warning(
        Code::UnknownReference,
        format!("{what} `{name}` is not among the `tools`"),
    )
    .about(at.path.pointer(None));
    if let Some(meant) = closest(name, known.iter().copied()) {
        diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
    }
    let place = rules.tree.place(at.node);
    rules.add(place, diagnostic);
}
