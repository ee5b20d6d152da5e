//! Checks test cases and turns.

use holodeck_model::{Code, Diagnostic, PLAIN_COMMAND, StandardMetricName, ToolNames, closest, printable};

use super::{
    Rules, View,
    arguments::check_arguments,
    evaluation::{check_conversation_metrics, check_metrics, check_standard},
    model::check_model,
    names::{check_name, tool_names},
};
use crate::yaml::{Entry, NodeId, Place};

/// The fields that belong in the turns if there are turns.
const PER_TURN: [&str; 9] = [
    "input",
    "command",
    "ground_truth",
    "expected_tools",
    "expected_tools_order",
    "forbidden_tools",
    "expected_approvals",
    "files",
    "retrieval_context",
];

/// The fields that need to know the questions in advance.
const NOT_WITH_USER: [&str; 2] = ["ground_truth", "retrieval_context"];

/// The checks that compare an answer with `value`.
const COMPARING: [&str; 9] = [
    "equality",
    "exact_match",
    "numeric",
    "contains",
    "contains_any",
    "contains_all",
    "icontains",
    "starts_with",
    "levenshtein",
];

pub(super) fn check_test_cases(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    let names = tool_names(rules, agent, provider);
    // Those of a target are its own, and a tool whose name cannot be read may have any.
    let tools = rules.list(agent, "tools");
    let are_known = tools.iter().all(|tool| rules.text(tool, "name").is_some());
    let names = (!rules.has(agent, "target") && are_known).then_some(names);
    let names = names.as_ref();
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
        check_conversation_metrics(rules, &case);
        check_question(rules, &case, names);
        check_parameters(rules, agent, &case);
        check_expected_agent(rules, agent, &case);
        check_command(rules, agent, &case);
        check_vars(rules, &case);
        check_tags(rules, &case);
        check_messages(rules, agent, &case);
        let turns = rules.list(&case, "turns");
        if rules.has(&case, "user") && !turns.is_empty() {
            rules.report_conflict(&case, "turns", "user");
            continue;
        }
        if let Some(user) = rules.child(&case, "user") {
            check_user(rules, &case, &user);
            continue;
        }
        if turns.is_empty() {
            if !rules.has(&case, "input") && !rules.has(&case, "user") {
                let what = "the question, unless the case has `turns` or a `user`";
                rules.report_missing(&case, "input", "", what);
            }
            continue;
        }
        check_only_turns(rules, &case);
        for turn in &turns {
            check_metrics(rules, turn, "evaluations");
            check_question(rules, turn, names);
            check_parameters(rules, agent, turn);
            check_command(rules, agent, turn);
        }
    }
}

/// A tag is one word: `--tag` and a cell of a table name several.
fn check_tags(rules: &mut Rules<'_>, case: &View) {
    let tags = rules.texts(case, "tags").into_iter();
    let is_wrong = |tag: &str| tag.contains(|c: char| c.is_whitespace() || c == ',' || c == ';');
    let wrong = tags.filter(|(_, tag)| is_wrong(tag));
    let wrong: Vec<(NodeId, String)> = wrong.map(|(node, tag)| (node, tag.to_owned())).collect();
    for (node, tag) in wrong {
        let message = format!(
            "`tags`{} has `{}`, which is not one word",
            rules.owner_suffix(case),
            printable(&tag)
        );
        let diagnostic = Diagnostic::error(Code::BadFormat, message)
            .about(case.path.pointer(Some("tags")))
            .with_help("write a tag without blanks, commas and semicolons, as in `tags: [refunds, slow]`");
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

/// The names of `vars` must be names in templates.
fn check_vars(rules: &mut Rules<'_>, case: &View) {
    let Some(vars) = rules.child(case, "vars") else {
        return;
    };
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let entries = rules.tree.entries(vars.node).unwrap_or_default().to_vec();
    for entry in entries {
        let name = rules.tree.key(&entry);
        if is_name(name) {
            continue;
        }
        let message = format!("`{}` cannot be a name in a template", printable(name));
        let diagnostic = Diagnostic::error(Code::BadFormat, message)
            .about(case.path.pointer(Some("vars")))
            .with_help("write letters, digits and `_`, and a letter first, as in `order_id`");
        rules.add(entry.key_place, diagnostic);
    }
}

/// The question follows the earlier messages, so the agent's answer is the last of them.
fn check_messages(rules: &mut Rules<'_>, agent: &View, case: &View) {
    let messages = rules.list(case, "messages");
    let Some(last) = messages.last() else { return };
    let looped = rules.child(agent, "quality_loop");
    let looped = looped.filter(|quality| rules.flag(quality, "enabled") != Some(false));
    if let Some(quality) = looped {
        let label = rules.tree.location(quality.named_at);
        let message = format!(
            "`messages`{} cannot be used with `quality_loop`",
            rules.owner_suffix(case)
        );
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(case.path.pointer(Some("messages")))
            .with_label(label, "`quality_loop` is here")
            .with_help("the loop asks again without the conversation before the question; write `turns`");
        let place = rules.key_place(case, "messages");
        rules.add(place, diagnostic);
    }
    if rules.text(last, "role") == Some("user") {
        let message = format!(
            "the last of the `messages`{} is the user's, and the question follows it",
            rules.owner_suffix(case)
        );
        let help = "add the agent's answer to it, or make it the `input`";
        rules.report_inconsistent(last, "role", message, Some(help));
    }
}

/// A specialist agent can only be expected if there are some, and of a question that is known.
fn check_expected_agent(rules: &mut Rules<'_>, agent: &View, case: &View) {
    let Some(entry) = rules.tree.get(case.node, "expected_agent") else {
        return;
    };
    let has_agents = rules
        .child(agent, "routing")
        .is_some_and(|routing| rules.has(&routing, "agents"));
    let problem = if !has_agents {
        let help = "add `routing: {agents: {directories: [{path: …}]}}`, or remove `expected_agent`";
        Some(("needs `routing.agents`", help))
    } else if rules.has(case, "user") && !rules.has(case, "input") {
        Some((
            "needs `input`",
            "the agent is selected for the first question of the case",
        ))
    } else {
        None
    };
    if let Some((needs, help)) = problem {
        let message = format!("`expected_agent`{} {needs}", rules.owner_suffix(case));
        let diagnostic = Diagnostic::error(Code::InconsistentValues, message)
            .about(case.path.pointer(Some("expected_agent")))
            .with_help(help);
        let place = entry.key_place;
        rules.add(place, diagnostic);
    } else {
        let place = entry.key_place;
        warn_of_unrouted(rules, agent, case, place);
    }
}

/// The question of a case whose agent is checked must be routed: otherwise no agent is selected for it.
fn warn_of_unrouted(rules: &mut Rules<'_>, agent: &View, case: &View, place: Place) {
    let Some(routing) = rules.child(agent, "routing") else {
        return;
    };
    let turns = rules.list(case, "turns");
    let question = turns.first().unwrap_or(case);
    let mut routed = rules.texts(&routing, "commands").into_iter();
    let is_plain = |known: &str| known.trim().eq_ignore_ascii_case(PLAIN_COMMAND);
    if rules.has(question, "command") || routed.any(|(_, known)| is_plain(known)) {
        return;
    }
    let message = format!(
        "`expected_agent`{} cannot be met: its question is the command `{PLAIN_COMMAND}`, which is not in \
         `routing.commands`",
        rules.owner_suffix(case)
    );
    let diagnostic = Diagnostic::warning(Code::InconsistentValues, message)
        .about(case.path.pointer(Some("expected_agent")))
        .with_help("add `run` to `routing.commands`, or give the case a `command`");
    rules.add(place, diagnostic);
}

/// A question can only be a command that may be routed: nothing would execute another one.
fn check_command(rules: &mut Rules<'_>, agent: &View, owner: &View) {
    let Some(command) = rules.text(owner, "command") else {
        return;
    };
    let routing = rules.child(agent, "routing");
    let routed = routing.map_or_else(Vec::new, |routing| rules.texts(&routing, "commands"));
    let routed: Vec<&str> = routed.into_iter().map(|(_, name)| name).collect();
    let is_known = |known: &&str| known.trim().eq_ignore_ascii_case(command.trim());
    let (message, help) = if routed.iter().any(is_known) {
        if !rules.has(owner, "user") || rules.has(owner, "input") {
            return;
        }
        let message = format!("`command`{} needs `input`", rules.owner_suffix(owner));
        (message, "the first question of the case is the command")
    } else {
        let message = format!(
            "`command`{} is `{}`, which is not in `routing.commands`",
            rules.owner_suffix(owner),
            printable(command),
        );
        (
            message,
            "add it to `routing.commands`: nothing else is executed as a command",
        )
    };
    let mut diagnostic = Diagnostic::error(Code::InconsistentValues, message)
        .about(owner.path.pointer(Some("command")))
        .with_help(help);
    if let Some(meant) = closest(command, routed.iter().copied()) {
        diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
    }
    let place = rules.value_place(owner, "command");
    rules.add(place, diagnostic);
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

/// Checks a simulated user, and that its case expects nothing of single answers.
fn check_user(rules: &mut Rules<'_>, case: &View, user: &View) {
    let label = rules.tree.location(user.named_at);
    for key in NOT_WITH_USER {
        if rules.entry(case, key).is_none() {
            continue;
        }
        let message = format!("`{key}`{} cannot be used with `user`", rules.owner_suffix(case));
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(case.path.pointer(Some(key)))
            .with_label(label.clone(), "`user` is here")
            .with_help(
                "a simulated user writes its questions during the test, so no answer can be expected of one",
            );
        let place = rules.key_place(case, key);
        rules.add(place, diagnostic);
    }
    if rules.entry(case, "files").is_some() && !rules.has(case, "input") {
        let message = format!("`files`{} needs `input`", rules.owner_suffix(case));
        let help = "files are sent with the question of the file, and a simulated user does not see them";
        rules.report_inconsistent(case, "files", message, Some(help));
    }
    if let Some(model) = rules.child(user, "model") {
        check_model(rules, &model);
    }
    let stop = rules.child(user, "stop_when");
    if let Some(stop) = &stop {
        check_stop(rules, stop);
    }
    for (node, end) in rules.texts(user, "expected_end") {
        if end == "stop_when" && stop.is_none() {
            let message = "`expected_end` names `stop_when`, but the user has none";
            let diagnostic = Diagnostic::error(Code::InconsistentValues, message)
                .about(user.path.pointer(Some("expected_end")))
                .with_help("add `stop_when` to the user, or remove it from the list");
            let place = rules.tree.place(node);
            rules.add(place, diagnostic);
        }
    }
}

/// Checks that `stop_when` is a check of the answer's text, and that it says what it looks for.
fn check_stop(rules: &mut Rules<'_>, stop: &View) {
    let Some(name) = rules.text(stop, "metric") else {
        return;
    };
    let metric: Option<StandardMetricName> = serde_json::from_value(name.into()).ok();
    let Some(metric) = metric else { return };
    if !metric.checks_answer() {
        let message = format!("`{name}` cannot be used as `stop_when`");
        let help = "use a check of the answer's text, such as `contains` or `regex`";
        rules.report_inconsistent(stop, "metric", message, Some(help));
        return;
    }
    check_standard(rules, stop, name);
    for field in ["threshold", "enabled", "fail_on_error"] {
        rules.warn_no_effect(stop, field, "only whether the check is met matters");
    }
    if (COMPARING.contains(&name) || name == "regex") && !rules.has(stop, "value") {
        rules.report_missing(stop, "value", "", "what to look for in the answer");
    }
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
            .with_help(
                "a case with turns can have only `name`, `evaluations` and `conversation_evaluations` itself",
            );
        let place = rules.key_place(case, key);
        rules.add(place, diagnostic);
    }
}

/// Checks the fields that a case and a turn have in common.
fn check_question(rules: &mut Rules<'_>, owner: &View, names: Option<&ToolNames>) {
    for call in rules.list(owner, "expected_tools") {
        check_arguments(rules, &call, "args");
        let node = match rules.tree.scalar(call.node) {
            Some(_) => Some(call.node),
            None => rules.entry(&call, "name").map(|entry| entry.value),
        };
        check_reference(rules, &call, node, names, "expected tool");
    }
    for forbidden in rules.list(owner, "forbidden_tools") {
        check_reference(rules, &forbidden, Some(forbidden.node), names, "forbidden tool");
    }
    for approval in rules.list(owner, "expected_approvals") {
        let node = rules.entry(&approval, "tool").map(|entry| entry.value);
        check_reference(rules, &approval, node, names, "tool");
    }
    for file in rules.list(owner, "files") {
        if rules.tree.entries(file.node).is_some() {
            rules.check_exactly_one(&file, "path", "url");
            rules.check_file(&file, "path", Diagnostic::warning);
        }
    }
}

/// Warns of an expected argument that its tool does not have: no call can have it. Only what the file declares is known.
fn check_parameters(rules: &mut Rules<'_>, agent: &View, owner: &View) {
    for call in rules.list(owner, "expected_tools") {
        let Some(name) = rules.text(&call, "name") else {
            continue;
        };
        let tools = rules.list(agent, "tools").into_iter();
        let mut tools = tools.filter(|tool| rules.text(tool, "name") == Some(name));
        let parameters = tools.next().and_then(|tool| rules.child(&tool, "parameters"));
        let Some(parameters) = parameters.filter(|it| !rules.findings.is_invalid(it.node)) else {
            continue;
        };
        let keys = |view: &View| rules.tree.entries(view.node).unwrap_or_default().to_vec();
        let declared: Vec<Entry> = keys(&parameters);
        let declared: Vec<&str> = declared.iter().map(|entry| rules.tree.key(entry)).collect();
        let args = rules.child(&call, "args");
        let mut found = Vec::new();
        for entry in args.as_ref().map(keys).unwrap_or_default() {
            let key = rules.tree.key(&entry);
            if declared.contains(&key) {
                continue;
            }
            let message = format!("`{}` has no parameter `{}`", printable(name), printable(key));
            let diagnostic =
                Diagnostic::warning(Code::UnknownReference, message).about(call.path.pointer(Some("args")));
            found.push((
                entry.key_place,
                match closest(key, declared.iter().copied()) {
                    Some(meant) => diagnostic.with_inline(format!("did you mean `{meant}`?")),
                    None if declared.is_empty() => diagnostic.with_help("it has no parameters"),
                    None => diagnostic.with_help(format!("it has `{}`", declared.join("`, `"))),
                },
            ));
        }
        for (place, diagnostic) in found {
            rules.add(place, diagnostic);
        }
    }
}

/// Reports a name that no tool has: an expectation that cannot be met, or a prohibition without effect.
fn check_reference(
    rules: &mut Rules<'_>,
    at: &View,
    node: Option<NodeId>,
    names: Option<&ToolNames>,
    what: &str,
) {
    let Some(names) = names else { return };
    let Some((node, scalar)) = node.and_then(|node| Some((node, rules.tree.scalar(node)?))) else {
        return;
    };
    check_name(rules, names, node, scalar.text, |shown| {
        let message = format!("{what} {shown} is not among the `tools`");
        Diagnostic::warning(Code::UnknownReference, message).about(at.path.pointer(None))
    });
}
