//! Checks mocked tools.

use holodeck_model::{Code, Diagnostic};

use super::{Rules, View, arguments::check_arguments};

/// The keys for the outcome of an answer.
const OUTCOMES: [&str; 3] = ["result", "error", "unavailable"];

/// Whether a tool answers from its `mock`, so that the requirements of the real tool do not apply.
pub(super) fn is_mocked(rules: &Rules<'_>, tool: &View) -> bool {
    rules.has(tool, "mock")
}

pub(super) fn check_mock(rules: &mut Rules<'_>, tool: &View) {
    let Some(mock) = rules.child(tool, "mock") else {
        return;
    };
    let message = format!(
        "{} answers from its `mock` and does not run",
        tool.path.describe(rules.tree)
    );
    let diagnostic = Diagnostic::note(Code::Mocked, message).about(mock.path.pointer(None));
    rules.add(mock.named_at, diagnostic);
    if rules.text(tool, "type") != Some("mcp") {
        check_answers(rules, tool, "mock", &mock);
        return;
    }
    if let Some(tools) = rules.child(&mock, "tools") {
        for (name, answers) in named_values(rules, &tools) {
            check_answers(rules, &tools, &name, &answers);
        }
    }
}

/// Checks the value under `key` of `owner`: an answer, a list of answers, or a mapping with one of them.
fn check_answers(rules: &mut Rules<'_>, owner: &View, key: &str, answers: &View) {
    for answer in rules.list(owner, key) {
        check_answer(rules, &answer);
    }
    if rules.tree.entries(answers.node).is_none() {
        return;
    }
    check_one_of(rules, answers, &["result", "error", "unavailable", "script"]);
    for answer in rules.list(answers, "script") {
        check_answer(rules, &answer);
    }
    if !rules.has(answers, "script") {
        rules.warn_no_effect(
            answers,
            "when_used_up",
            "one answer for all calls is never used up",
        );
    }
}

fn check_answer(rules: &mut Rules<'_>, answer: &View) {
    if rules.tree.entries(answer.node).is_some() {
        check_one_of(rules, answer, &OUTCOMES);
        check_arguments(rules, answer, "args");
    }
}

fn check_one_of(rules: &mut Rules<'_>, view: &View, keys: &[&str]) {
    let given: Vec<&str> = keys.iter().copied().filter(|key| rules.has(view, key)).collect();
    match given.as_slice() {
        [_] => {}
        [] => {
            let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            let message = format!(
                "{} needs one of {}",
                view.path.describe_field(rules.tree),
                names.join(", ")
            );
            let diagnostic = Diagnostic::error(Code::OneOfRequired, message).about(view.path.pointer(None));
            rules.add(view.named_at, diagnostic);
        }
        [first, others @ ..] => {
            for other in others {
                rules.report_conflict(view, first, other);
            }
        }
    }
}

fn named_values(rules: &Rules<'_>, view: &View) -> Vec<(String, View)> {
    let entries = rules.tree.entries(view.node).unwrap_or_default();
    let names = entries.iter().map(|entry| rules.tree.key(entry).to_owned());
    names.zip(rules.values(view)).collect()
}
